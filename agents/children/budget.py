"""How many rounds a child has, and when it is told how many are left. Pure."""

from __future__ import annotations

import math
from typing import Any


def line(rounds: int) -> str:
    """What the first message of a child ends with."""
    n = "1 tool round" if rounds == 1 else f"{rounds} tool rounds"
    return f"You have {n} for this task. Keep the last one for your report."


def notice(used: int, rounds: int) -> dict[str, Any] | None:
    """What a round adds to the transcript: at 50 %, at 80 %, before the last two."""
    left = rounds - used
    marks = {math.ceil(rounds * 0.5), math.ceil(rounds * 0.8), rounds - 2, rounds - 1}
    if left < 1 or used < 1 or used not in marks:
        return None
    n = "1 of your" if left == 1 else f"{left} of your"
    verb = "is" if left == 1 else "are"
    return {
        "type": "budget",
        "to_model": True,
        "left": left,
        "text": f"[budget] {n} {rounds} tool rounds {verb} left.",
    }
