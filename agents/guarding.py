"""The repeat guard at the calls of one message: what it knows, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.context import outgoing
from agents.context.governance import DEFAULTS, Governance
from agents.errors import ToolError
from agents.guard import History, Remark
from agents.models import ToolCall
from agents.runs import Hold
from agents.surface.bridge import envelope
from agents.tools.base import Arguments, Tool, ToolResult
from agents.tools.peek import peek
from agents.tools.registry import resolve


@dataclass
class Watch:
    """The guard over the open calls of a message. Made when the transcript was read.

    Entries do not count that come while the calls run: their answer has not seen them.
    """

    hold: Hold
    calls: Sequence[ToolCall]
    governance: Governance = DEFAULTS
    find: Callable[[str], Tool | None] = resolve
    _visible: frozenset[int] = field(init=False)
    _known: tuple[frozenset[str], History] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._visible = outgoing.verbatim(self.hold.items)

    def check(
        self, call: ToolCall, tool: Tool, arguments: Arguments
    ) -> ToolResult | None:
        """What stands for the call; None when it has to run."""
        now = None
        if tool.name == "read_file":
            root = self.hold.run.conversation.root
            now = peek(root, getattr(arguments, "path", ""), self.hold.interrupt)
        return self._history().check(call.call_id, now).result

    def is_ahead(self, call: ToolCall) -> bool:
        """Whether an identical call must end before this one is checked and run."""
        return self._history().is_ahead(call.call_id)

    def is_early(self, call: ToolCall) -> bool:
        """Whether the check has to wait for calls that come before this one."""
        return self._history().is_early(call.call_id)

    def remark(self, call: ToolCall, result: ToolResult) -> Remark:
        """What to add to the raw outcome of a call."""
        return self._history().remark(call.call_id, result)

    def _history(self) -> History:
        """All calls, with the outcomes known by now; read again when there are more."""
        outcomes = {
            call.call_id: (call.outcome or {}) | {"ok": call.ok}
            for call in self.calls
            if call.state == ToolCall.State.ENDED
        }
        ended = frozenset(outcomes)
        if self._known is None or self._known[0] != ended:
            history = self._read(outcomes)
            self._known = ended, history
        return self._known[1]

    def _read(self, outcomes: dict[str, dict[str, Any]]) -> History:
        return History.of(
            self.hold.items,
            self._visible,
            outcomes,
            on=self.governance.repeat_guard,
            find=self.find,
            unwrap=real_call,
        )


def real_call(name: str, arguments: str) -> tuple[str, str]:
    """The tool and arguments that a call through the bridge means; others as they are."""
    if name != "tool_call":
        return name, arguments
    try:
        return envelope(arguments)
    except ToolError:
        return name, arguments
