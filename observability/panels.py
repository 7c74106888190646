"""What the Insights page shows, as values for the template: tiles, charts, tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from observability import charts as shapes
from observability.figures import Figures
from observability.insights import Line, Overview
from observability.periods import Period
from observability.templatetags.run_log import DASH, money, number, percent, seconds
from observability.templatetags.run_log import tokens as short

MOMENT = timedelta(microseconds=1)
#: Models with a colour of their own on a chart; the others share the last one.
MOST_SERIES = 6

FACET_TITLES: dict[str, str | Promise] = {
    "agent": gettext_lazy("Agent"),
    "model": gettext_lazy("Model"),
    "mode": gettext_lazy("Mode"),
    "role": gettext_lazy("Role"),
    "conversation": gettext_lazy("Conversation"),
    "user": gettext_lazy("Person"),
}


@dataclass(frozen=True)
class Tile:
    """A figure with its change. `tone`: whether the change is good, bad or neither."""

    title: str
    value: str
    note: str
    help: str
    change: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a chart's table, also what a pointer over the chart reads."""

    label: str
    cells: list[str]


@dataclass(frozen=True)
class Chart:
    """A drawing, its axis, and the same figures as a table."""

    key: str
    title: str
    about: str
    drawing: shapes.Drawing
    top: str
    middle: str
    labels: list[str]
    legend: list[tuple[int, str]]
    heads: list[str]
    rows: list[Row]

    @property
    def tips(self) -> list[str]:
        """A line per step: what a pointer over it is told."""
        return [
            " · ".join([row.label, *_pairs(self.heads[1:], row.cells)])
            for row in self.rows
        ]


def _pairs(heads: Sequence[str], cells: Sequence[str]) -> list[str]:
    return [f"{head} {cell}" for head, cell in zip(heads, cells, strict=True)]


@dataclass(frozen=True)
class Table:
    """Lines by one facet, each with the address that chooses it."""

    facet: str
    title: str
    lines: list[tuple[Line, str, bool]]


#: Title, how it reads, what it means, whether more is better (None: neither), rate.
Measure = tuple[str, Callable[[Figures], float | None], str, bool | None, bool]


def tiles(found: Overview) -> list[Tile]:
    """The strip of figures on top."""
    now, before = found.now, found.before
    return [
        _cache_tile(now, before),
        Tile(
            _("Input tokens"),
            short(now.total_input),
            _("%(count)s cached") % {"count": short(now.cache_read)},
            _("All that was sent: fresh, read from and written to the cache."),
            *_moved(now, before, lambda f: f.total_input, None),
        ),
        Tile(
            _("Cost"),
            money(now.known_cost),
            _unpriced(now),
            _("US dollars, by the prices of the models."),
            *_moved(now, before, lambda f: f.known_cost, False),
        ),
        Tile(
            _("Turns"),
            short(now.turns),
            _("%(count)s model calls") % {"count": short(now.calls)},
            _("Runs that began."),
            *_moved(now, before, lambda f: f.turns, None),
        ),
        Tile(
            _("Error rate"),
            percent(now.error_rate),
            _("%(count)s failed calls") % {"count": short(now.failed)},
            _("Model calls that brought no answer, retries excluded."),
            *_points(now, before, lambda f: f.error_rate, False),
        ),
        Tile(
            _("Tokens per second"),
            DASH if now.speed is None else number(now.speed, 0),
            _("after the first token"),
            _("Output tokens over the time that they took."),
            *_moved(now, before, lambda f: f.speed, True),
        ),
        Tile(
            _("First token"),
            seconds(now.first_token(0.5)),
            _("95 %%: %(time)s") % {"time": seconds(now.first_token(0.95))},
            _("Half of the calls answered within this time; 95 % within the other."),
            *_moved(now, before, lambda f: f.first_token(0.5), False),
        ),
        _idle_tile(found),
    ]


def _cache_tile(now: Figures, before: Figures | None) -> Tile:
    notes = {
        "good": _("Healthy"),
        "fair": _("Could be better"),
        "poor": _("Caching hardly works"),
        "unknown": _("Too few calls to judge"),
    }
    return Tile(
        _("Cache rate"),
        percent(now.cache_rate),
        notes[now.health],
        _("Tokens read from the cache, of all input tokens."),
        *_points(now, before, lambda f: f.cache_rate, True),
    )


def _idle_tile(found: Overview) -> Tile:
    idle = found.idle
    change, tone = _relative(idle.mean, idle.before, False)
    return Tile(
        _("Idle cost"),
        short(idle.latest),
        _("tokens before the first word"),
        _("What the newest conversation carried before anybody worked in it."),
        change,
        tone,
    )


def _unpriced(now: Figures) -> str:
    if now.unpriced:
        return _("%(count)s calls without a price") % {"count": short(now.unpriced)}
    return _("US dollars")


def _moved(
    now: Figures,
    before: Figures | None,
    read: Callable[[Figures], Any],
    more_is_good: bool | None,
) -> tuple[str, str]:
    return _relative(read(now), read(before) if before else None, more_is_good)


def _relative(now: Any, before: Any, more_is_good: bool | None) -> tuple[str, str]:
    """By how many percent a figure moved, or × 10 and more; empty without a figure."""
    if now is None or not before:
        return "", ""
    times = float(now) / float(before)
    text = f"× {times:.0f}" if times >= 10 else f"{(times - 1) * 100:+.0f} %"
    return text, _tone(times - 1, more_is_good)


def _points(
    now: Figures,
    before: Figures | None,
    read: Callable[[Figures], float | None],
    more_is_good: bool,
) -> tuple[str, str]:
    """By how many points a rate moved."""
    one, two = read(now), read(before) if before else None
    if one is None or two is None:
        return "", ""
    moved = (one - two) * 100
    return _("%(points)s points") % {"points": f"{moved:+.1f}"}, _tone(
        moved, more_is_good
    )


def _tone(moved: float, more_is_good: bool | None) -> str:
    if more_is_good is None or abs(moved) < 0.005:
        return ""
    return "good" if (moved > 0) == more_is_good else "bad"


def charts(found: Overview, period: Period) -> list[Chart]:
    makers = (_cache_chart, _token_chart, _cost_chart, _idle_chart)
    return [make(found, period) for make in makers]


def label(at: datetime, period: Period) -> str:
    """How a point of time is written under a chart, by its step."""
    local = at.astimezone(period.zone)
    if period.step == "hour":
        return date_format(local, "H:i")
    return date_format(local, "MONTH_DAY_FORMAT" if period.step == "day" else "Y-m")


def _labels(found: Overview, period: Period) -> list[str]:
    return [label(point.at, period) for point in found.points]


def _axis(labels: list[str]) -> list[str]:
    """The first, the middle and the last label: what fits under every chart."""
    if len(labels) < 3:
        return labels
    return [labels[0], labels[len(labels) // 2], labels[-1]]


def _cache_chart(found: Overview, period: Period) -> Chart:
    points, labels = found.points, _labels(found, period)
    rates = [point.figures.cache_rate for point in points]
    marks = [place for place, point in enumerate(points) if point.breaks]
    rows = [
        Row(text, [percent(rate), short(point.figures.total_input), str(point.breaks)])
        for text, rate, point in zip(labels, rates, points, strict=True)
    ]
    return Chart(
        "cache",
        _("Cache rate over time"),
        _("Share of the input that came from the cache. A mark: prefixes were lost."),
        shapes.line(rates, top=1.0, marks=marks),
        "100 %",
        "50 %",
        _axis(labels),
        [],
        [_("Time"), _("Cache rate"), _("Input"), _("Breaks")],
        rows,
    )


def _token_chart(found: Overview, period: Period) -> Chart:
    names = [_("Cached"), _("Written to cache"), _("Fresh"), _("Output")]
    columns = [
        [
            point.figures.cache_read,
            point.figures.cache_write,
            point.figures.input,
            point.figures.total_output,
        ]
        for point in found.points
    ]
    drawing = shapes.stacked(columns)
    labels = _labels(found, period)
    return Chart(
        "tokens",
        _("Tokens"),
        _("What was sent and answered. Fresh input costs most, cached input least."),
        drawing,
        short(round(drawing.top)),
        short(round(drawing.top / 2)),
        _axis(labels),
        list(enumerate(names)),
        [_("Time"), *names],
        [
            Row(text, [short(value) for value in column])
            for text, column in zip(labels, columns, strict=True)
        ],
    )


def _cost_chart(found: Overview, period: Period) -> Chart:
    models = [line.value for line in found.tables["model"]]
    shown, rest = models[:MOST_SERIES], models[MOST_SERIES:]
    columns = []
    for point in found.points:
        cost = {name: float(f.cost) for name, f in point.by_model.items()}
        column = [cost.get(name, 0.0) for name in shown]
        columns.append([*column, sum(cost.get(name, 0.0) for name in rest)])
    names = [*shown, _("Other models")]
    if not rest:
        names, columns = names[:-1], [column[:-1] for column in columns]
    drawing = shapes.stacked(columns)
    labels = _labels(found, period)
    return Chart(
        "cost",
        _("Cost by model"),
        _("US dollars. Calls of models without a price are left out."),
        drawing,
        f"${drawing.top:g}",
        f"${drawing.top / 2:g}",
        _axis(labels),
        list(enumerate(names)),
        [_("Time"), *names],
        [
            Row(text, [f"${value:.4f}" for value in column])
            for text, column in zip(labels, columns, strict=True)
        ],
    )


def _idle_chart(found: Overview, period: Period) -> Chart:
    points = found.idle.points
    labels = [label(point.at, period) for point in points]
    places = {point.at: place for place, point in enumerate(points)}
    marks = {places.get(period.bucket(change.at)) for change in found.idle.changes}
    drawing = shapes.line(
        [point.tokens for point in points],
        marks=sorted(place for place in marks if place is not None),
    )
    return Chart(
        "idle",
        _("Idle cost of new conversations"),
        _("Tokens before the first word. A mark: the configuration changed."),
        drawing,
        short(round(drawing.top)),
        short(round(drawing.top / 2)),
        _axis(labels),
        [],
        [_("Time"), _("Tokens"), _("Conversations")],
        [
            Row(text, [short(point.tokens), str(point.count)])
            for text, point in zip(labels, points, strict=True)
        ],
    )


def tables(
    found: Overview,
    toggled: Callable[[str, str], str],
    chosen: dict[str, tuple[str, ...]],
) -> list[Table]:
    """The tables by facet; each line's address chooses it, or takes it back."""
    return [
        Table(
            facet,
            str(FACET_TITLES[facet]),
            [
                (
                    line,
                    toggled(facet, line.value) if line.value else "",
                    line.value in chosen.get(facet, ()),
                )
                for line in lines
            ],
        )
        for facet, lines in found.tables.items()
    ]
