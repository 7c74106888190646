"""A run that a person started to compact the conversation, and for nothing else."""

from __future__ import annotations

from typing import Any

from agents import runs
from agents.endpoints import Choice
from agents.governing import compact
from agents.reach import read_on
from agents.runs import Hold
from agents.standing import check_rights

#: What set such a run going.
TRIGGER = "compact"


def order(who: str, focus: str) -> dict[str, Any]:
    """The body of the notice that the run carries out."""
    text = f"{who} asked to compact the conversation."
    if focus:
        text = f"{who} asked to compact the conversation and to keep: {focus}"
    return {"type": "compact", "text": text, "focus": focus, "to_model": False}


def compact_alone(hold: Hold, choice: Choice) -> bool:
    """Play such a run to its end; False for others, and if people spoke meanwhile.

    A worker that goes on after a lost one finds the summary that it stored.
    """
    run = hold.run
    if run.trigger != TRIGGER:
        return False
    check_rights(run)
    hold.check()
    made = [row for row in read_on(hold) if row.seq >= run.since_seq]
    if not any(row.kind == "summary" for row in made):
        focus = next((row.body["focus"] for row in made if "focus" in row.body), "")
        compact(hold, choice, focus)
    return runs.finish(hold, run.since_seq)
