"""What the loop and the request builder know of a model service.

A `Prompt` says what a model shall see, in no API's terms. A provider encodes it into
`Piece`s, whose bytes joined are exactly the HTTP body, and streams the answer back as
`Delta`s closed by one `Completion`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agents.interrupts import Interrupt

SegmentKind = Literal[
    "envelope",  # what the API's format adds: options, braces
    "tools",  # one declared tool
    "system",  # base instructions, guidance, mode, persona
    "startup",  # startup context: environment, rules, skills index, deferred index
    "rules",  # a rules file that came in later
    "skills",  # a skill that was loaded or announced later
    "message",  # what people, the model and its tools said
]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who answers for a part of a request: shown in the context explorer."""

    kind: SegmentKind
    id: str
    title: str
    reason: str = ""


#: Tells Anthropic's service to cache what comes before; it moves with the newest message.
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'

ENVELOPE = Owner("envelope", "envelope", "Request format")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A declared tool; `schema` is the canonical JSON text of its arguments."""

    name: str
    description: str
    schema: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the system prompt."""

    text: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A call as the model wrote it; `arguments` is its raw text, perhaps not JSON."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A stored image that a message shows; `seq` is the entry that brought it.

    `data` is its file in base64, filled in only for a request that is really encoded.
    """

    sha256: str
    mime: str
    width: int
    height: int
    name: str
    seq: int
    owner: Owner
    data: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the outgoing view.

    `assistant` may carry `tool_calls`, `reasoning` and `opaque` (what its own API needs
    back verbatim: thinking blocks with signatures; other APIs ignore it). `tool`
    answers `call_id`; `ok=False` marks an error result. `pictures` follow the text of a
    `user` message. `memo` is for encoders: what they made of this very message.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    owner: Owner
    tool_calls: tuple[ToolRequest, ...] = ()
    call_id: str = ""
    ok: bool = True
    reasoning: str = ""
    opaque: dict[str, Any] | None = None
    pictures: tuple[Picture, ...] = ()
    memo: dict[str, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything one model call shall see, in wire order."""

    model_name: str
    tools: tuple[ToolSpec, ...]
    system: tuple[Block, ...]
    messages: tuple[Message, ...]
    max_output_tokens: int
    effort: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a request and whom they belong to.

    `tokens` is what they cost where that does not follow from their text: an image is
    billed by its size in pixels. None for text. `memo` is for whoever accounts for it.
    """

    owner: Owner
    data: bytes
    tokens: int | None = None
    memo: dict[str, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class Request:
    """What one model call sends: `body` is the HTTP body, byte for byte."""

    pieces: tuple[Piece, ...]

    @property
    def body(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)

    @property
    def pictures(self) -> int:
        """How many images it shows."""
        return sum(piece.tokens is not None for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the service billed them: five disjoint axes.

    `input` excludes what was read from or written to the cache; `output` excludes
    `reasoning`. `reported` is False when the service said nothing: then all are zero.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    reported: bool = False

    @property
    def total_input(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class Delta:
    """A bit of the answer as it streams in."""

    kind: Literal["text", "reasoning", "tool_call"]
    text: str


StopReason = Literal["end", "tool_calls", "max_tokens", "refusal", "pause", "other"]


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer. Call ids are unique within it: the adapter repairs them."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolRequest, ...]
    usage: Usage
    stop_reason: StopReason
    opaque: dict[str, Any] | None = None


class Provider(Protocol):
    """A model service: encodes a prompt and streams one answer to it.

    Both are free of retries (see `retry.py`) and of any database access.
    """

    def encode(self, prompt: Prompt) -> Request:
        """The exact bytes to send. Deterministic: equal prompts give equal bytes."""

    def stream(
        self, request: Request, interrupt: Interrupt
    ) -> Iterator[Delta | Completion]:
        """Send and yield deltas, then exactly one `Completion` as the last item.

        Raises a `ProviderError` for every fault of the service, and the interrupt's
        reason when stopped; the connection is closed in either case.
        """
