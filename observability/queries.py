"""The read side of the run log: returns dataclasses, decides who may see what.

Everything pages by key, never by offset: a run of 50,000 events opens as fast as one
of 50.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.models import Agent, Run
from observability.models import Record
from workspace.errors import NotVisible
from workspace.models import Conversation, User, Workspace

WINDOW = 200  # events on a page
MOST_WINDOW = 500  # events in one answer
RUNS = 50  # runs on a page


@dataclass(frozen=True)
class Group:
    """A filter of the run log. Without kinds: everything."""

    name: str
    label: str | Promise
    kinds: frozenset[str] = frozenset()


TOOL_LOADS = frozenset({"tool.loaded", "tool.searched"})
GROUPS = (
    Group("all", _("All")),
    Group("loads", _("Tool loads"), TOOL_LOADS),
    Group(
        "tools",
        _("Tools"),
        TOOL_LOADS | {"tool.called", "tool.finished", "loop.suspected"},
    ),
    Group(
        "model",
        _("Model"),
        frozenset(
            [
                "request.assembled",
                "model.called",
                "message.completed",
                "provider.retried",
                "prefix.changed",
                "context.reported",
                "context.compacted",
                "outputs.pruned",
                "model.changed",
                "mode.changed",
                "rules.attached",
                "budget.warned",
            ]
        ),
    ),
    Group("loops", _("Loops"), frozenset({"loop.suspected"})),
    Group(
        "cache",
        _("Cache"),
        frozenset({"prefix.changed", "outputs.pruned", "context.compacted"}),
    ),
    Group(
        "waits",
        _("Waits"),
        frozenset(
            [
                "wait.opened",
                "wait.answered",
                "wait.expired",
                "run.waiting",
                "run.resumed",
                "child.started",
                "child.finished",
            ]
        ),
    ),
    Group("errors", _("Errors")),
)
GROUP_NAMES = frozenset(group.name for group in GROUPS)


@dataclass(frozen=True)
class Line:
    """One record as the log shows it. `offset` is seconds since the run was made."""

    seq: int
    round: int
    kind: str
    failed: bool
    text: str
    data: dict[str, Any]
    at: datetime
    offset: float

    @property
    def json(self) -> str:
        return json.dumps(self.data, ensure_ascii=False, indent=2)


@dataclass(frozen=True)
class Window:
    """Some lines in order. Whoever resumes asks for what comes after `cursor`."""

    lines: list[Line]
    cursor: int
    more_before: bool
    more_after: bool

    @property
    def first(self) -> int:
        return self.lines[0].seq if self.lines else 0

    @property
    def last(self) -> int:
        return self.lines[-1].seq if self.lines else 0


@dataclass(frozen=True)
class RunFigures:
    """A run with what it took. Tokens; cost in US dollars, None while unknown."""

    id: UUID
    workspace_slug: str
    workspace_name: str
    time_zone: str
    conversation_id: UUID
    conversation_title: str
    agent_name: str
    agent_title: str
    state: str
    state_label: str
    trigger: str
    who: str
    message: str
    model_name: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    rounds: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: Decimal | None
    loads: int
    depth: int = 0
    parent: UUID | None = None

    @property
    def seconds(self) -> float | None:
        """From start to end, or until now; None before it started."""
        if self.started_at is None:
            return None
        return ((self.ended_at or timezone.now()) - self.started_at).total_seconds()

    @property
    def cache_rate(self) -> float | None:
        """Share of the input that the provider had cached; None without input."""
        return self.tokens_cached / self.tokens_in if self.tokens_in else None

    @property
    def open(self) -> bool:
        return self.state in Run.OPEN

    @property
    def page_key(self) -> str:
        """Where the next page of a list goes on."""
        return f"{self.created_at.isoformat()}_{self.id}"


def agent_for(workspace: Workspace, name: str) -> Agent:
    agent = Agent.objects.filter(workspace=workspace, name=name).first()
    if agent is None:
        raise NotVisible
    return agent


def visible_runs(user: User) -> QuerySet[Run]:
    """The runs of all conversations that the person may see."""
    return Run.objects.filter(
        conversation__in=Conversation.objects.visible_to(user).values("pk")
    ).select_related("workspace", "conversation", "agent", "started_by", "delegation")


def run_for(user: User, slug: str, run_id: UUID) -> Run:
    """The run, if the person may see its conversation."""
    run = visible_runs(user).filter(pk=run_id, workspace__slug=slug).first()
    if run is None:
        raise NotVisible
    return run


def list_runs(
    runs: QuerySet[Run], *, state: str = "", before: str = ""
) -> tuple[list[RunFigures], str]:
    """A page of runs, newest first, and the key of the next page ("" at the end)."""
    if state in Run.State.values:
        runs = runs.filter(state=state)
    if place := _place(before):
        at, run_id = place
        runs = runs.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=run_id))
    rows = list(runs.order_by("-created_at", "-pk")[: RUNS + 1])
    loads = count_loads([run.pk for run in rows[:RUNS]])
    figures = [run_figures(run, loads.get(run.pk, 0)) for run in rows[:RUNS]]
    older = figures[-1].page_key if len(rows) > RUNS else ""
    return with_children(figures), older


def with_children(figures: list[RunFigures]) -> list[RunFigures]:
    """The runs, each followed by the children that worked for it. Two queries a level.

    A child that the list shows by itself already is not shown twice.
    """
    shown = {one.id for one in figures}
    below = _children_of([one.id for one in figures if not one.depth], 1)
    deeper = _children_of([one.id for rows in below.values() for one in rows], 2)
    found: list[RunFigures] = []
    for one in figures:
        found.append(one)
        for child in below.get(one.id, ()):
            if child.id not in shown:
                found += [child, *deeper.get(child.id, ())]
    return found


def _children_of(run_ids: list[UUID], depth: int) -> dict[UUID, list[RunFigures]]:
    runs = Run.objects.filter(delegation__parent_run__in=run_ids).select_related(
        "workspace", "conversation", "agent", "started_by", "delegation"
    )
    rows = list(runs.order_by("created_at", "pk"))
    loads = count_loads([run.pk for run in rows])
    found: dict[UUID, list[RunFigures]] = {}
    for run in rows:
        one = replace(run_figures(run, loads.get(run.pk, 0)), depth=depth)
        found.setdefault(run.delegation.parent_run_id, []).append(one)
    return found


def _place(key: str) -> tuple[datetime, UUID] | None:
    """What `page_key` wrote; None for anything else."""
    at, _separator, run_id = key.partition("_")
    try:
        moment = datetime.fromisoformat(at)
        return (moment, UUID(run_id)) if moment.tzinfo else None
    except ValueError:
        return None


def count_loads(run_ids: list[UUID]) -> dict[UUID, int]:
    """How many loads each run has; runs without one are left out. One query."""
    rows = Record.objects.filter(run_id__in=run_ids, kind="tool.loaded")
    return dict(rows.values_list("run_id").annotate(Count("pk")).order_by())


def run_figures(run: Run, loads: int) -> RunFigures:
    """Needs the run's workspace, conversation, agent and starter to be selected."""
    return RunFigures(
        id=run.pk,
        workspace_slug=run.workspace.slug,
        workspace_name=run.workspace.name,
        time_zone=run.workspace.time_zone,
        conversation_id=run.conversation_id,
        conversation_title=str(run.conversation),
        agent_name=run.agent.name,
        agent_title=run.agent.title,
        state=run.state,
        state_label=run.get_state_display(),
        trigger=run.trigger,
        who=str(run.started_by) if run.started_by else "",
        message=run.message,
        model_name=run.model_name,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        rounds=run.round,
        tokens_in=run.tokens_in,
        tokens_cached=run.tokens_cached,
        tokens_out=run.tokens_out,
        cost=run.cost,
        loads=loads,
        parent=parent_of(run),
    )


def parent_of(run: Run) -> UUID | None:
    """The run that a child works for. No query when its delegation was selected."""
    found = getattr(run, "delegation", None)
    return found.parent_run_id if found else None


def head_seq(run_id: UUID) -> int:
    """The seq of the run's last record, 0 before the first. One indexed query."""
    rows = Record.objects.filter(run_id=run_id).order_by("-seq")
    return rows.values_list("seq", flat=True).first() or 0


def count_kinds(run_id: UUID) -> dict[str, int]:
    """Events by group, for the filters. Two queries over an index each."""
    records = Record.objects.filter(run_id=run_id)
    by_kind = dict(records.values_list("kind").annotate(Count("pk")).order_by())
    counts = {
        group.name: sum(by_kind.get(kind, 0) for kind in group.kinds)
        for group in GROUPS
    }
    counts["all"] = sum(by_kind.values())
    counts["errors"] = records.filter(failed=True).count()
    return counts


def filtered(run_id: UUID, *, group: str = "all", words: str = "") -> QuerySet[Record]:
    """The run's records of a group that hold the words, as one phrase."""
    records = Record.objects.filter(run_id=run_id)
    if group == "errors":
        records = records.filter(failed=True)
    elif kinds := next((g.kinds for g in GROUPS if g.name == group), None):
        records = records.filter(kind__in=kinds)
    if words:
        stored = json.dumps(words, ensure_ascii=False)[1:-1]
        records = records.alias(stored=Cast("data", TextField())).filter(
            Q(text__icontains=words)
            | Q(stored__icontains=stored)
            | Q(kind__icontains=words)
        )
    return records


def window(
    run: Run,
    *,
    group: str = "all",
    words: str = "",
    after: int | None = None,
    before: int | None = None,
    around: int | None = None,
    limit: int = WINDOW,
) -> Window:
    """A stretch of the log: after or before a seq, around one, or the end."""
    # The head is read first: what comes later is behind the cursor, not skipped.
    head = head_seq(run.pk)
    records = filtered(run.pk, group=group, words=words).filter(seq__lte=head)
    limit = max(1, min(limit, MOST_WINDOW))
    if after is not None:
        rows, more = _forward(records.filter(seq__gt=after), limit)
        return _window(run, rows, head, more_before=after > 0, more_after=more)
    if around is not None:
        older, more_before = _backward(records.filter(seq__lt=around), limit // 2)
        newer, more = _forward(records.filter(seq__gte=around), limit - limit // 2)
        return _window(
            run, older + newer, head, more_before=more_before, more_after=more
        )
    if before is not None:
        rows, more = _backward(records.filter(seq__lt=before), limit)
        return _window(run, rows, head, more_before=more, more_after=before <= head)
    rows, more = _backward(records, limit)
    return _window(run, rows, head, more_before=more, more_after=False)


def _forward(records: QuerySet[Record], limit: int) -> tuple[list[Record], bool]:
    rows = list(records.order_by("seq")[: limit + 1])
    return rows[:limit], len(rows) > limit


def _backward(records: QuerySet[Record], limit: int) -> tuple[list[Record], bool]:
    rows = list(records.order_by("-seq")[: limit + 1])
    return rows[:limit][::-1], len(rows) > limit


def _window(
    run: Run, rows: list[Record], head: int, *, more_before: bool, more_after: bool
) -> Window:
    lines = [line(row, run.created_at) for row in rows]
    cursor = lines[-1].seq if more_after and lines else head
    return Window(lines, cursor, more_before, more_after)


def line(row: Record, start: datetime) -> Line:
    return Line(
        seq=row.seq,
        round=row.round,
        kind=row.kind,
        failed=row.failed,
        text=row.text,
        data=row.data,
        at=row.at,
        offset=max(0.0, (row.at - start).total_seconds()),
    )


def lines_after(run: Run, after: int, limit: int) -> Iterator[Line]:
    """The run's lines in order, read in portions."""
    rows = Record.objects.filter(run_id=run.pk, seq__gt=after).order_by("seq")[:limit]
    for row in rows.iterator(chunk_size=2000):
        yield line(row, run.created_at)
