"""How a conversation's context is kept in bounds: the settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Governance:
    """`tools.repeatGuard`, `agent.pruneToolOutputs`, `agent.keepToolRounds`,
    `agent.pruneBatchRounds`, and `context.compactAt` (tokens; None: from the window).
    """

    repeat_guard: bool = True
    prune_tool_outputs: bool = True
    keep_tool_rounds: int = 6
    prune_batch_rounds: int | Literal["auto"] = "auto"
    compact_at: int | None = None


DEFAULTS = Governance()
