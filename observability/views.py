"""Pages of the run log: parse, one call, render."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from agents.models import Run
from observability import queries
from observability.diagnosis import diagnosis_of
from observability.text import json_line
from workspace.access import workspace_for
from workspace.models import User

MOST_WORDS = 200  # characters
MOST_DOWNLOAD = 100_000  # events


class SignedInRequest(HttpRequest):
    """What `login_required` lets through."""

    user: User


@dataclass(frozen=True)
class Question:
    """What a reader of a run asks for, as the address says it."""

    group: str
    words: str
    after: int | None
    before: int | None
    around: int | None

    @classmethod
    def of(cls, request: HttpRequest) -> Question:
        group = request.GET.get("group", "all")
        return cls(
            group=group if group in queries.GROUP_NAMES else "all",
            words=request.GET.get("q", "").strip().replace("\0", "")[:MOST_WORDS],
            after=seq(request, "after"),
            before=seq(request, "before"),
            around=seq(request, "at"),
        )

    @property
    def at_the_end(self) -> bool:
        """Whether new events belong on this page."""
        return self.after is None and self.before is None and self.around is None

    def link(self, **changes: object) -> str:
        """The query string of the same filters elsewhere in the log."""
        values = {"group": self.group, "q": self.words, **changes}
        kept = {
            name: value for name, value in values.items() if value not in ("", None)
        }
        if kept.get("group") == "all":
            del kept["group"]
        return f"?{urlencode(kept)}"


def seq(request: HttpRequest, name: str) -> int | None:
    """A seq from the address; None for anything else."""
    value = request.GET.get(name, "")
    if value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return None


@login_required
@require_safe
def home(request: SignedInRequest) -> HttpResponse:
    """The latest runs of all workspaces of the person."""
    runs, older = queries.list_runs(
        queries.visible_runs(request.user).filter(delegation=None),
        state=request.GET.get("state", ""),
        before=request.GET.get("before", ""),
    )
    context = {"runs": runs, **listing(request, older)}
    return render(request, "observability/home.html", context)


@login_required
@require_safe
def logs(request: SignedInRequest, slug: str, name: str) -> HttpResponse:
    """The runs of one agent."""
    workspace = workspace_for(request.user, slug)
    agent = queries.agent_for(workspace, name)
    runs, older = queries.list_runs(
        queries.visible_runs(request.user).filter(agent=agent),
        state=request.GET.get("state", ""),
        before=request.GET.get("before", ""),
    )
    context = {
        "workspace": workspace,
        "agent": agent,
        "runs": runs,
        **listing(request, older),
    }
    return render(request, "observability/logs.html", context)


def listing(request: HttpRequest, older: str) -> dict[str, Any]:
    """What both lists of runs need: the state filter and the way to older runs."""
    state = request.GET.get("state", "")
    state = state if state in Run.State.values else ""
    older_link = urlencode({"before": older} | ({"state": state} if state else {}))
    return {
        "states": Run.State.choices,
        "state": state,
        "older": f"?{older_link}" if older else "",
        "first_page": "before" not in request.GET,
    }


@login_required
@require_safe
def run(request: SignedInRequest, slug: str, run_id: UUID) -> HttpResponse:
    """One run and its events, live at the end."""
    row = queries.run_for(request.user, slug, run_id)
    question = Question.of(request)
    window = ask(row, question)
    counts = queries.count_kinds(row.pk)
    loads = queries.count_loads([row.pk])
    context = {
        "workspace": row.workspace,
        "run": (figures := queries.run_figures(row, loads.get(row.pk, 0))),
        "children": queries.with_children([figures])[1:],
        "findings": diagnosis_of(row),
        "question": question,
        "window": window,
        "groups": [
            (group, question.link(group=group.name), counts[group.name])
            for group in queries.GROUPS
        ],
        "records_url": reverse("observability:run_records", args=[slug, run_id])
        + question.link(),
        "earlier": question.link(before=window.first) if window.more_before else "",
        "later": question.link(after=window.last) if window.more_after else "",
        "live": question.at_the_end,
    }
    return render(request, "observability/run.html", context)


@login_required
@require_safe
def run_records(request: SignedInRequest, slug: str, run_id: UUID) -> HttpResponse:
    """What comes after a seq: a part of the page, or JSON for who asks for it."""
    row = queries.run_for(request.user, slug, run_id)
    question = Question.of(request)
    window = ask(row, question)
    accepted = request.get_preferred_type(["text/html", "application/json"])
    if accepted == "application/json":
        return JsonResponse(
            {
                "records": [asdict(line) for line in window.lines],
                "cursor": window.cursor,
                "more": window.more_after,
            }
        )
    loads = queries.count_loads([row.pk])
    context = {
        "workspace": row.workspace,
        "run": queries.run_figures(row, loads.get(row.pk, 0)),
        "window": window,
    }
    response = render(request, "observability/_records_and_head.html", context)
    response["X-Log-Cursor"] = str(window.cursor)
    response["X-Log-More"] = "1" if window.more_after else "0"
    return response


def ask(row: Run, question: Question) -> queries.Window:
    return queries.window(
        row,
        group=question.group,
        words=question.words,
        after=question.after,
        before=question.before,
        around=question.around,
    )


@login_required
@require_safe
def run_ndjson(request: SignedInRequest, slug: str, run_id: UUID) -> HttpResponse:
    """The run's events, one JSON object a line; `Link` names the next part, if any."""
    row = queries.run_for(request.user, slug, run_id)
    after = seq(request, "after") or 0
    lines = []
    last = after
    for event in queries.lines_after(row, after, MOST_DOWNLOAD):
        last = event.seq
        lines.append(json_line(ndjson(row, event)))
    response = HttpResponse(
        "".join(f"{text}\n" for text in lines), content_type="application/x-ndjson"
    )
    name = f"run-{row.pk}.ndjson"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    if len(lines) == MOST_DOWNLOAD:
        response["Link"] = f'<{request.path}?after={last}>; rel="next"'
    return response


def ndjson(row: Run, event: queries.Line) -> dict[str, Any]:
    return {
        "run": str(row.pk),
        "conversation": str(row.conversation_id),
        "seq": event.seq,
        "round": event.round,
        "kind": event.kind,
        "failed": event.failed,
        "at": event.at.isoformat(),
        "text": event.text,
        "data": event.data,
    }
