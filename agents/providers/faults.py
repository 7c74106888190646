"""What a model service's refusal means, in our errors and in sentences for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agents.errors import (
    ContextOverflow,
    ImagesRefused,
    ProviderAuthFailed,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
)
from agents.providers.sse import parse_json

MAX_MESSAGE = 300  # characters of a service's own words that are worth repeating
_MAX_READ = 4_000  # characters of them that are looked at
_FRAGMENT = 6  # characters of a key in a row that already count as the key

_OVERFLOW = re.compile(
    r"context[_ ]length[_ ]exceeded|maximum context length|context window"
    r"|prompt is too long|exceeds? the (available |maximum |model'?s? )*context"
    r"|exceed_context_size|context size|input is too long|too many (input )?tokens"
    r"|max_model_len|longer than the (maximum )?model|input length and .?max_tokens"
    r"|maximum (number of )?(input )?tokens|reduce the length of the (messages|prompt)",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient[ _]balance|credit balance is too low"
    r"|billing_hard_limit|exceeded your current quota",
    re.IGNORECASE,
)
_IMAGES = re.compile(
    r"\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj|input_modalit", re.IGNORECASE
)
_MASKED_KEY = re.compile(
    r"(?<![\w.-])[\w.-]*\*{2,}[\w.*-]*|\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{4,}"
)
_WORD = re.compile(r"[^\s'\"`<>(),;]+")
# Services report faults inside a stream by type; the numbers are what HTTP would say.
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "exceed_context_size_error": 400,
    "context_length_exceeded": 400,
}


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """Blank out keys, whole, cut short or masked with stars."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    pieces = {
        secret[start : start + _FRAGMENT]
        for secret in secrets
        for start in range(len(secret) - _FRAGMENT + 1)
    }
    text = _MASKED_KEY.sub("[key]", text)
    return _WORD.sub(
        lambda word: "[key]" if any(p in word[0] for p in pieces) else word[0], text
    )


def refusal(
    name: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    secrets: tuple[str, ...],
) -> ProviderError:
    """The error for an answer that is not a success; `name` is the endpoint's."""
    if 300 <= status < 400:
        return ProviderRejected(
            f"{name} redirects to another address, which is never followed. Enter the "
            "final address of the API in the endpoint's settings."
        )
    words, code = _own_words(body)
    said = _shorten(redact(words, secrets))
    return _classify(name, status, said, f"{code} {words}", retry_after(headers))


def fault_in_stream(name: str, error: Any, secrets: tuple[str, ...]) -> ProviderError:
    """The error for an `error` object that came in place of the next event."""
    words, code = _words_of(error)
    status = 0
    if isinstance(error, dict):
        number = error.get("code") or error.get("status")
        status = number if isinstance(number, int) else 0
        status = status or _STATUS_OF_TYPE.get(str(error.get("type")), 0)
        status = status or _STATUS_OF_TYPE.get(str(error.get("code")), 0)
    said = _shorten(redact(words, secrets))
    return _classify(name, status or 500, said, f"{code} {words}", None)


def _classify(
    name: str, status: int, said: str, evidence: str, wait: float | None
) -> ProviderError:
    quote = f" It says: {said}" if said else ""
    if status == 402 or (status in (400, 403, 429) and _NO_CREDIT.search(evidence)):
        return ProviderAuthFailed(
            f"{name} has no credit left for this key. Top up the account or enter "
            f"another key in the endpoint's settings.{quote}"
        )
    if status in (401, 403):
        return ProviderAuthFailed(
            f"{name} does not accept the key (status {status}). Check the key in the "
            f"endpoint's settings.{quote}"
        )
    if status == 413 or (400 <= status < 500 and _OVERFLOW.search(evidence)):
        return ContextOverflow(
            f"The request is larger than {name}'s model can take.{quote}"
        )
    if status == 429:
        return ProviderUnavailable(
            f"{name} is limiting requests (status 429).{quote}", retry_after=wait
        )
    if _speaks_of_images(status, evidence):
        return ImagesRefused(
            f"{name} refuses the images of the request (status {status}).{quote}"
        )
    if status >= 500 or status in (408, 425):
        if _OVERFLOW.search(evidence) and status == 500:
            return ContextOverflow(
                f"The request is larger than {name}'s model can take.{quote}"
            )
        return ProviderUnavailable(
            f"{name} is failing or overloaded (status {status}).{quote}",
            retry_after=wait,
        )
    return ProviderRejected(f"{name} refuses the request (status {status}).{quote}")


def _speaks_of_images(status: int, evidence: str) -> bool:
    """Refusals of images; llama.cpp says so with a 500 that no retry would change."""
    if status in (400, 404, 415, 422, 501):
        return bool(_IMAGES.search(evidence))
    unsupported = re.search(r"not supported|unsupported|mmproj", evidence, re.I)
    return status == 500 and bool(unsupported and _IMAGES.search(evidence))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the service asks to wait, or None if it does not say."""
    milliseconds = headers.get("retry-after-ms", "")
    if milliseconds.isdigit():
        return int(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value)
    return seconds if 0 <= seconds < float("inf") else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _own_words(body: bytes) -> tuple[str, str]:
    try:
        parsed = parse_json(body)
    except ValueError:
        text = body[:_MAX_READ].decode("utf-8", "replace")
        return ("" if "<html" in text.lower() else text), ""
    if isinstance(parsed, list) and parsed:  # Gemini wraps its error in a list
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return str(parsed)[:_MAX_READ], ""
    inner = parsed.get("error", parsed.get("detail", parsed.get("message", parsed)))
    return _words_of(inner)


def _words_of(error: Any) -> tuple[str, str]:
    """A service's message, and its code and type for recognition."""
    if not isinstance(error, dict):
        return str(error)[:_MAX_READ], ""
    message = error.get("message") or error.get("detail") or error.get("error") or ""
    return str(message)[:_MAX_READ], f"{error.get('code', '')} {error.get('type', '')}"


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
