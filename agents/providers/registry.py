"""Every kind of model service, by an explicit list."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agents.errors import ProviderError
from agents.interrupts import Interrupt
from agents.providers.addresses import AddressPolicy
from agents.providers.anthropic import ANTHROPIC_VERSION, Anthropic
from agents.providers.base import (
    ENVELOPE,
    Completion,
    Message,
    Prompt,
    Provider,
)
from agents.providers.chat_completions import ChatCompletions, Dialect
from agents.providers.http import Caller, Service, Timeouts
from agents.providers.sse import parse_json
from agents.providers.wire import count

_MAX_LISTED = 500  # models of an endpoint's list that are kept


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """What an adapter must know of an endpoint. Its repr shows no key.

    `headers` are extra ones, as pairs. `caches_prompts` is false for services that
    refuse or ignore cache breakpoints.
    """

    name: str
    kind: str
    base_url: str
    api_key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeouts: Timeouts = Timeouts()
    policy: AddressPolicy = AddressPolicy()
    caches_prompts: bool = True


def _chat_completions(config: EndpointConfig) -> Provider:
    dialect = Dialect.of(config.base_url)
    return ChatCompletions(Caller(_service(config)), dialect)


def _simulator(config: EndpointConfig) -> Provider:
    dialect = Dialect.of(config.base_url, carries_metadata=True)
    return ChatCompletions(Caller(_service(config)), dialect)


def _anthropic(config: EndpointConfig) -> Provider:
    return Anthropic(Caller(_service(config)), caches_prompts=config.caches_prompts)


KINDS: dict[str, Callable[[EndpointConfig], Provider]] = {
    "chat_completions": _chat_completions,
    "anthropic": _anthropic,
    "simulator": _simulator,
}
_making = threading.Lock()


def make_provider(config: EndpointConfig) -> Provider:
    """The adapter for an endpoint; equal configurations share one and its connections.

    Touches no network. Raises `KeyError` for an unknown kind.
    """
    with _making:  # lru_cache alone may build two at once
        return _make(config)


def warm(config: EndpointConfig) -> None:
    """Open one connection ahead of the first request; never raises for the network."""
    provider = make_provider(config)
    if isinstance(provider, ChatCompletions | Anthropic):
        provider.warm()


@lru_cache(maxsize=256)
def _make(config: EndpointConfig) -> Provider:
    return KINDS[config.kind](config)


def _service(config: EndpointConfig) -> Service:
    key = config.api_key.strip()
    if config.kind == "anthropic":
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        headers |= {"x-api-key": key} if key else {}
    else:
        # The simulator takes any key, but wants one: it keeps caches apart by it.
        key = key or ("tallyroom" if config.kind == "simulator" else "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
    secrets = (config.api_key.strip(), *(value for _name, value in config.headers))
    return Service(
        name=config.name,
        base_url=config.base_url.rstrip("/") + "/",
        headers=headers | dict(config.headers),
        secrets=tuple(secret for secret in secrets if secret),
        timeouts=config.timeouts,
        address_policy=config.policy,
    )


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that an endpoint offers; limits in tokens, 0 when it does not say."""

    name: str
    window: int = 0
    max_output: int = 0


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """What "test this endpoint" found: `sentences` are for the person who asked."""

    ok: bool
    models: tuple[ListedModel, ...]
    sentences: tuple[str, ...]


def check_endpoint(config: EndpointConfig, model_name: str = "") -> EndpointCheck:
    """List the models and ask one of them (the first if none is named) for one word.

    Takes as long as the endpoint's timeouts allow; raises nothing for its faults.
    """
    models: tuple[ListedModel, ...] = ()
    sentences: list[str] = []
    try:
        models = _list_models(config)
    except ProviderError as error:
        sentences.append(f"The list of models could not be read: {error.message}")
    else:
        sentences.append(_about_models(config.name, models, model_name))
    name = model_name or (models[0].name if models else "")
    if not name:
        sentences.append("Enter the name of a model to test an answer.")
        return EndpointCheck(False, models, tuple(sentences))
    try:
        sentences.append(_about_answer(name, _ask(config, name)))
    except ProviderError as error:
        sentences.append(f"{name!r} did not answer: {error.message}")
        return EndpointCheck(False, models, tuple(sentences))
    return EndpointCheck(True, models, tuple(sentences))


def _about_models(endpoint: str, models: tuple[ListedModel, ...], wanted: str) -> str:
    if wanted and models and wanted not in {model.name for model in models}:
        return f"{endpoint} does not list {wanted!r} among its {len(models)} models."
    return f"{endpoint} lists {len(models)} model{'' if len(models) == 1 else 's'}."


def _about_answer(name: str, answer: Completion) -> str:
    said = " ".join(answer.text.split())[:60] or "(no text)"
    usage = answer.usage
    counted = (
        f"It reports usage: {usage.total_input} tokens in, "
        f"{usage.output + usage.reasoning} out."
        if usage.reported
        else "It does not report usage, so tokens will be estimated."
    )
    return f"{name!r} answered {said!r}. {counted}"


def _ask(config: EndpointConfig, name: str) -> Completion:
    provider = make_provider(config)
    message = Message("user", "Reply with the single word: ready", ENVELOPE)
    request = provider.encode(Prompt(name, (), (), (message,), max_output_tokens=64))
    *_deltas, answer = provider.stream(request, Interrupt())
    assert isinstance(answer, Completion)  # the protocol's last item
    return answer


def _list_models(config: EndpointConfig) -> tuple[ListedModel, ...]:
    body = Caller(_service(config)).get_json("models")
    try:
        listing = parse_json(body)
    except ValueError as error:
        raise ProviderError(
            f"{config.name} answers with something that is not JSON. Check that the "
            "base address ends where the API begins, usually with /v1."
        ) from error
    entries = listing.get("data") if isinstance(listing, dict) else listing
    if not isinstance(entries, list):
        raise ProviderError(f"{config.name} answers without a list of models.")
    found = (_listed(entry) for entry in entries[:_MAX_LISTED])
    return tuple(model for model in found if model)


def _listed(entry: Any) -> ListedModel | None:
    """One entry of the list; services name their limits in several ways."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        return None
    meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
    window = (
        entry.get("context_window")
        or entry.get("context_length")
        or entry.get("max_model_len")
        or entry.get("max_input_tokens")
        or (meta or {}).get("n_ctx_train")
    )
    output = entry.get("max_output_tokens") or entry.get("max_tokens")
    return ListedModel(entry["id"], count(window), count(output))
