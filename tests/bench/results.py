"""A bench's figures: printed as a table, kept as JSON, never asserted."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

FOLDER = Path(__file__).resolve().parent.parent.parent / "bench" / "results"


@dataclass(frozen=True)
class Figure:
    """`goal` is what the product wants to reach; empty where there is none."""

    what: str
    value: float | str
    unit: str = ""
    goal: str = ""


@dataclass
class Results:
    bench: str
    figures: list[Figure] = field(default_factory=list)

    def add(
        self, what: str, value: float | str, unit: str = "", goal: str = ""
    ) -> None:
        shown = round(value, 2) if isinstance(value, float) else value
        self.figures.append(Figure(what, shown, unit, goal))

    def spread(self, what: str, seconds: Sequence[float], goal: str = "") -> None:
        """Median and 95th percentile in milliseconds."""
        middle, high = statistics.median(seconds) * 1000, p95(seconds) * 1000
        self.add(what, f"{middle:.1f} / {high:.1f}", "ms p50 / p95", goal)

    def write(self) -> Path:
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / f"{self.bench}.json"
        about = {
            "bench": self.bench,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cores": psutil.cpu_count(),
            "load": psutil.getloadavg()[0],
            "python": platform.python_version(),
        }
        figures = [asdict(one) for one in self.figures]
        path.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")
        return path

    def table(self) -> str:
        width = max((len(one.what) for one in self.figures), default=0)
        return "\n".join(
            f"  {one.what:<{width}}  {one.value} {one.unit}"
            + (f"   (goal {one.goal})" if one.goal else "")
            for one in self.figures
        )


def p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
