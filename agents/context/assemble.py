"""The one builder of requests: the loop sends what it returns, others only look at it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.context import startup, tokens
from agents.context.view import Item, view
from agents.models import LanguageModel
from agents.providers.base import Message, Owner, Prompt, Provider, Request
from workspace import transcript
from workspace.models import Conversation, Entry

#: Kept free for the answer: at most this many tokens (spec: context budget).
RESERVED_TOKENS = 20_000


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring bytes of a request with one owner."""

    kind: str
    id: str
    title: str
    digest: str
    tokens: int
    size: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """A request, accounted for, and the transcript's head that it was made from."""

    request: Request
    segments: tuple[Segment, ...]
    seen_seq: int
    body: bytes

    @property
    def tokens(self) -> int:
        """Our estimate of its input tokens."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


def items_of(conversation: Conversation, after: int = 0) -> list[Item]:
    """The conversation's entries behind `after`, with their bodies: one query."""
    entries: list[Entry] = transcript.entries(conversation.pk, after=after)
    return [
        Item(entry.seq, entry.kind, body)
        for entry, body in zip(entries, transcript.bodies(entries), strict=True)
    ]


def assemble(
    items: Sequence[Item],
    *,
    provider: Provider,
    language_model: LanguageModel,
    effort: str = "",
    metadata: dict[str, str] | None = None,
) -> Assembled:
    """The request that follows from a transcript. Pure: equal items, equal bytes."""
    prompt = build_prompt(items, language_model, effort, metadata or {})
    request = provider.encode(prompt)
    return Assembled(
        request,
        segments_of(request, language_model.encoding),
        max((item.seq for item in items), default=0),
        request.body,
    )


def build_prompt(
    items: Sequence[Item],
    language_model: LanguageModel,
    effort: str,
    metadata: dict[str, str],
) -> Prompt:
    """What the model shall see, in no API's terms."""
    surface = _latest(items, "surface")
    return Prompt(
        model_name=language_model.name,
        tools=startup.declared_tools(surface),
        system=startup.declared_system(surface),
        messages=(_startup_message(_latest(items, "startup")), *view(items)),
        max_output_tokens=reserved_tokens(language_model),
        effort=effort,
        metadata=metadata,
    )


def reserved_tokens(language_model: LanguageModel) -> int:
    """Tokens kept free for the answer, which is also the maximum asked for."""
    return min(RESERVED_TOKENS, language_model.max_output, language_model.window // 4)


def _latest(items: Sequence[Item], kind: str) -> dict[str, Any]:
    return next(item.body for item in reversed(items) if item.kind == kind)


def _startup_message(body: dict[str, Any]) -> Message:
    return Message("user", body["text"], Owner("startup", "startup", "Startup context"))


def segments_of(request: Request, encoding: str) -> tuple[Segment, ...]:
    """Join neighbouring pieces of one owner and count their tokens."""
    grouped: list[tuple[Owner, list[bytes]]] = []
    for piece in request.pieces:
        if grouped and grouped[-1][0] == piece.owner:
            grouped[-1][1].append(piece.data)
        else:
            grouped.append((piece.owner, [piece.data]))
    return tuple(_segment(owner, b"".join(parts), encoding) for owner, parts in grouped)


def _segment(owner: Owner, data: bytes, encoding: str) -> Segment:
    text = data.decode("utf-8", "replace")
    return Segment(
        owner.kind,
        owner.id,
        owner.title,
        hashlib.sha256(data).hexdigest()[:16],
        tokens.count(text, encoding),
        len(data),
    )
