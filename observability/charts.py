"""Charts as shapes: numbers in, coordinates out. The template draws them as SVG.

Drawn on the server, so they need neither a script nor an exception from the content
policy, follow light and dark by the same colours as everything else, and print.
A drawing is WIDTH by HEIGHT and stretched to its place; lines keep their thickness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 1000, 200
#: A bar takes this share of its step.
BAR = 0.72
#: Steps of an axis: the next one above the highest value is its end.
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    series: int


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """`paths` are lines, broken where a value is missing; `top` is the axis' end."""

    top: float
    paths: tuple[str, ...] = ()
    dots: tuple[Dot, ...] = ()
    bars: tuple[Bar, ...] = ()
    marks: tuple[float, ...] = ()


def nice(value: float) -> float:
    """A round number that is not below the value; 1 for nothing."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size * 10 <= value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in STEPS if size * step >= value * 0.999999)


def line(
    values: Sequence[float | None],
    *,
    top: float | None = None,
    marks: Sequence[int] = (),
) -> Drawing:
    """A line through the middle of each step; a lone value is a dot.

    `marks` are the places of vertical marks.
    """
    end = top or nice(max((value for value in values if value is not None), default=0))
    at = _middles(len(values))
    paths: list[str] = []
    dots: list[Dot] = []
    stretch: list[Dot] = []
    for x, value in [*zip(at, values, strict=True), (0.0, None)]:
        if value is not None:
            stretch.append(Dot(x, _height(value, end)))
            continue
        if stretch:
            dots.append(stretch[-1])
        if len(stretch) > 1:
            paths.append("M" + " L".join(f"{dot.x} {dot.y}" for dot in stretch))
        stretch = []
    return Drawing(end, tuple(paths), tuple(dots), (), tuple(at[n] for n in marks))


def stacked(columns: Sequence[Sequence[float]]) -> Drawing:
    """A bar per step, its parts upon each other in the order given."""
    end = nice(max((sum(column) for column in columns), default=0))
    step = WIDTH / max(1, len(columns))
    bars = []
    for place, column in enumerate(columns):
        below = 0.0
        for series, value in enumerate(column):
            if value <= 0:
                continue
            bottom, upper = _height(below, end), _height(below + value, end)
            x, height = place * step + step * (1 - BAR) / 2, bottom - upper
            bars.append(
                Bar(round(x, 2), upper, round(step * BAR, 2), round(height, 2), series)
            )
            below += value
    return Drawing(end, bars=tuple(bars))


def _middles(count: int) -> list[float]:
    step = WIDTH / max(1, count)
    return [round((place + 0.5) * step, 2) for place in range(count)]


def _height(value: float, end: float) -> float:
    return round(HEIGHT * (1 - min(value, end) / end), 2)
