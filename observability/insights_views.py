"""The Insights page: parse the address, one call, render."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.models import Agent
from observability import insights, panels
from observability.models import Role
from observability.periods import (
    DEFAULT,
    RANGES,
    Period,
    parse_days,
    period_of,
    zone_of,
)
from observability.selection import Selection
from observability.views import SignedInRequest
from workspace.access import workspace_for
from workspace.models import Conversation, User, Workspace

FACETS = ("agent", "model", "mode", "role", "conversation", "user")
#: Values of one facet, and characters of one value.
MOST_VALUES, LONGEST = 20, 200


@dataclass(frozen=True)
class Asked:
    """What the address asks for; nonsense is left out."""

    range: str
    first: str = ""
    last: str = ""
    facets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, request: HttpRequest) -> Asked:
        name = request.GET.get("range", DEFAULT)
        facets = {
            facet: tuple(
                dict.fromkeys(
                    value[:LONGEST]
                    for value in request.GET.getlist(facet)[:MOST_VALUES]
                    if value and "\0" not in value
                )
            )
            for facet in FACETS
        }
        return cls(
            name if name in RANGES else DEFAULT,
            request.GET.get("from", "")[:10],
            request.GET.get("to", "")[:10],
            {facet: values for facet, values in facets.items() if values},
        )

    def pairs(self, **changes: Any) -> list[tuple[str, str]]:
        """The same question as name-value pairs; `changes` replace whole facets."""
        kept: dict[str, Iterable[str]] = {**self.facets, **changes}
        pairs = [(name, value) for name, values in kept.items() for value in values]
        pairs.append(("range", self.range))
        if self.range == "custom":
            pairs += [("from", self.first), ("to", self.last)]
        return pairs

    def link(self, **changes: Any) -> str:
        return f"?{urlencode(self.pairs(**changes))}"

    def toggled(self, facet: str, value: str) -> str:
        """The address with that value chosen, or no longer."""
        values = self.facets.get(facet, ())
        other = tuple(one for one in values if one != value)
        if len(other) == len(values):
            other = (*values, value)
        return self.link(**{facet: other})

    def ranged(self, name: str) -> str:
        return Asked(name, self.first, self.last, self.facets).link()


@login_required
@require_safe
def page(request: SignedInRequest, slug: str) -> HttpResponse:
    """What the workspace's model calls cost, and whether the cache works."""
    workspace = workspace_for(request.user, slug)
    asked = Asked.of(request)
    zone = zone_of(workspace.time_zone)
    first = insights.first_call(workspace)
    period = _period(asked, zone, first)
    chosen = Selection(
        workspace, period, _facets(workspace, request.user, asked.facets)
    )
    found = insights.overview(chosen, request.user, compare=asked.range != "all")
    context = {
        "workspace": workspace,
        "asked": asked,
        "period": period,
        "zone": zone,
        "found": found,
        "is_new": first is None,
        "ranges": [
            (name, label, asked.ranged(name), name == asked.range)
            for name, (label, _days) in RANGES.items()
            if name != "custom"
        ],
        "chips": _chips(asked, found),
        "hidden": [pair for pair in asked.pairs() if pair[0] in FACETS],
        "first_day": period.start.astimezone(zone).date().isoformat(),
        "last_day": (period.end - panels.MOMENT).astimezone(zone).date().isoformat(),
        "tiles": panels.tiles(found),
        "charts": panels.charts(found, period),
        "tables": panels.tables(found, asked.toggled, asked.facets),
    }
    return render(request, "observability/insights.html", context)


def _period(asked: Asked, zone: ZoneInfo, first: Any) -> Period:
    now = timezone.now()
    days = parse_days(asked.first, asked.last, now.astimezone(zone).date())
    name = DEFAULT if asked.range == "custom" and days is None else asked.range
    return period_of(name, zone, now, first=first, days=days)


def _facets(
    workspace: Workspace, viewer: User, asked: dict[str, tuple[str, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Values as the sums know them. One that the viewer may not know fits nothing."""
    found: dict[str, tuple[Any, ...]] = {}
    for facet, values in asked.items():
        if facet == "agent":
            rows = Agent.objects.filter(workspace=workspace, name__in=values)
            found[facet] = tuple(rows.values_list("pk", flat=True))
        elif facet == "conversation":
            visible = Conversation.objects.visible_to(viewer)
            talks = visible.filter(workspace=workspace, pk__in=_uuids(values))
            found[facet] = tuple(talks.values_list("pk", flat=True))
        elif facet == "user":
            found[facet] = tuple(_uuids(values))
        elif facet == "role":
            found[facet] = tuple(v for v in values if v in Role.values)
        else:
            found[facet] = values
        found[facet] = found[facet] or NOTHING[facet]
    return found


#: A value per facet that no row has.
NOTHING: dict[str, tuple[Any, ...]] = {
    "agent": (UUID(int=0),),
    "conversation": (UUID(int=0),),
    "user": (UUID(int=0),),
    "role": ("-",),
    "model": ("",),
    "mode": ("",),
}


def _uuids(values: Iterable[str]) -> list[UUID]:
    found = []
    for value in values:
        try:
            found.append(UUID(value))
        except ValueError:
            continue
    return found


def _chips(asked: Asked, found: insights.Overview) -> list[tuple[str, str, str]]:
    """What is chosen: facet, title, and the address without it."""
    titles = {
        (line.facet, line.value): line.title
        for lines in found.tables.values()
        for line in lines
    }
    return [
        (str(panels.FACET_TITLES[facet]), titles.get((facet, value), value), link)
        for facet, values in asked.facets.items()
        for value in values
        if (link := asked.toggled(facet, value))
    ]
