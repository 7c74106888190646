"""The one builder of requests: the loop sends what it returns, others only look at it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.context import outgoing, pictures, startup
from agents.context.growing import Kept
from agents.context.pictures import Load
from agents.context.segments import Segment, segments_of
from agents.context.view import Item
from agents.models import LanguageModel
from agents.providers.base import Block, Message, Owner, Prompt, Provider, Request
from workspace import transcript
from workspace.models import Conversation

#: Kept free for the answer: at most this many tokens (spec: context budget).
RESERVED_TOKENS = 20_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """A request, accounted for, and the transcript's head that it was made from.

    `cap` and `reserved`: tokens that it may fill at most, and of these the answer's.
    `factor`: the model's calibration, by which our counts are multiplied.
    """

    request: Request
    segments: tuple[Segment, ...]
    seen_seq: int
    body: bytes
    cap: int
    reserved: int
    factor: float = 1.0

    @property
    def tokens(self) -> int:
        """Our estimate of its input tokens."""
        return sum(segment.tokens for segment in self.segments)

    def offset_of(self, segment_id: str) -> int | None:
        """Where the first part with this id begins, in bytes of the body."""
        start = 0
        for segment in self.segments:
            if segment.id == segment_id:
                return start
            start += segment.size
        return None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


def items_of(conversation: Conversation, after: int = 0) -> list[Item]:
    """The conversation's entries behind `after`, with their bodies: one query.

    Those that were erased are left out: they are part of no request any more.
    """
    return [
        Item(seq, kind, body)
        for seq, kind, body in transcript.contents(conversation.pk, after)
        if body
    ]


def assemble(
    items: Sequence[Item],
    *,
    provider: Provider,
    language_model: LanguageModel,
    effort: str = "",
    metadata: dict[str, str] | None = None,
    messages: Sequence[Message] | None = None,
    cap: int | None = None,
    load: Load = pictures.nothing,
    kept: Kept | None = None,
) -> Assembled:
    """The request that follows from a transcript. Pure: equal items, equal bytes.

    `messages` stand for those of the transcript: for a request beside the conversation
    that shares its beginning. `cap` (tokens) stands for the model's window.
    `load` reads the stored images that the messages show. `kept` is what was made of the
    beginning of the items before.
    """
    said = outgoing.messages(items, kept) if messages is None else messages
    cap = cap or language_model.window
    prompt = build_prompt(
        items,
        language_model,
        effort,
        metadata or {},
        pictures.shown(said, load, sees=sees_images(language_model)),
        cap,
    )
    request = provider.encode(prompt)
    return Assembled(
        request,
        segments_of(request, language_model.encoding, startup_blocks(items)),
        items[-1].seq,
        request.body,
        cap,
        reserved_tokens(language_model, cap),
        language_model.calibration,
    )


def build_prompt(
    items: Sequence[Item],
    language_model: LanguageModel,
    effort: str,
    metadata: dict[str, str],
    messages: Sequence[Message],
    cap: int,
) -> Prompt:
    """What the model shall see, in no API's terms."""
    surface = _latest(items, "surface")
    return Prompt(
        model_name=language_model.name,
        tools=tuple(
            tool for body in declaring(items) for tool in startup.declared_tools(body)
        ),
        system=startup.declared_system(surface),
        messages=(_startup_message(_latest(items, "startup")), *messages),
        max_output_tokens=reserved_tokens(language_model, cap),
        effort=effort,
        metadata=metadata,
    )


def sees_images(language_model: LanguageModel) -> bool:
    """Whether it is sent images: one that is not known to be blind gets a try."""
    return language_model.vision != LanguageModel.Vision.NO


def declaring(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What declares the request's tools: the surface, then later additions in order.

    Nothing that was added is withdrawn while the surface lasts, also by a rewind.
    """
    start = next(item for item in reversed(items) if item.kind == "surface")
    added = [
        item.body
        for item in items
        if item.kind == "notice"
        and item.seq > start.seq
        and item.body.get("type") == "declared"
    ]
    return [start.body, *added]


def reserved_tokens(language_model: LanguageModel, cap: int) -> int:
    """Tokens kept free for the answer, which is also the maximum asked for."""
    return min(RESERVED_TOKENS, language_model.max_output, cap // 4)


def startup_blocks(items: Sequence[Item]) -> tuple[Block, ...]:
    """The parts of the startup context, each with its own line in the account.

    Their texts joined are the whole: what stands between two belongs to the second.
    """
    return tuple(
        Block(text, Owner("startup", part["id"], part["title"]))
        for part, text in startup.with_gaps(_latest(items, "startup")["parts"])
    )


def _latest(items: Sequence[Item], kind: str) -> dict[str, Any]:
    return next(item.body for item in reversed(items) if item.kind == kind)


def _startup_message(body: dict[str, Any]) -> Message:
    return Message("user", body["text"], Owner("startup", "startup", "Startup context"))
