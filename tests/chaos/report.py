"""What a scenario found: checks that held or did not, and figures beside them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    scenario: str
    what: str
    figure: str
    ok: bool


@dataclass
class Report:
    """One scenario's lines. `violations` holds details that the table has no room for."""

    scenario: str
    lines: list[Line] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def check(self, what: str, wrong: Sequence[object], figure: object = "") -> None:
        """A promise: it holds when nothing is `wrong`."""
        shown = f"{len(wrong)} wrong" if wrong else str(figure) or "none wrong"
        self.lines.append(Line(self.scenario, what, shown, not wrong))
        self.violations += [f"{self.scenario}: {what}: {one}" for one in wrong]

    def figure(self, what: str, value: object) -> None:
        self.lines.append(Line(self.scenario, what, str(value), True))

    def limit(self, what: str, seconds: Sequence[float], most: float) -> None:
        """A promise about times: none above `most` seconds."""
        late = [f"{one * 1000:.0f} ms" for one in seconds if one > most]
        self.check(what, late, spread(seconds))
        if late:
            self.figure(f"{what}: spread", spread(seconds))

    def times(self, what: str, seconds: Sequence[float], *, p95: float) -> None:
        """A goal, not a promise: a busy machine may miss it, so it is only shown."""
        met = percentile(seconds, 0.95) <= p95
        goal = f"goal p95 {p95 * 1000:.0f}: {'met' if met else 'missed'}"
        self.figure(what, f"{spread(seconds)} ({goal})")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "no values"
    return (
        f"p50 {statistics.median(seconds) * 1000:.0f}"
        f" / p95 {percentile(seconds, 0.95) * 1000:.0f}"
        f" / max {max(seconds) * 1000:.0f} ms"
    )


def table(lines: Sequence[Line]) -> str:
    widths = [
        max(len(line.scenario) for line in lines),
        max(len(line.what) for line in lines),
    ]
    return "\n".join(
        f"{'ok  ' if line.ok else 'FAIL'}  {line.scenario:<{widths[0]}}  "
        f"{line.what:<{widths[1]}}  {line.figure}"
        for line in lines
    )
