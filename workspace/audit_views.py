"""The audit log's page and its download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workspace import audit
from workspace.access import require, workspace_for
from workspace.models import Change, Workspace
from workspace.people_views import person

ON_A_PAGE = 50
MOST_WORDS = 200  # characters
LONGEST_VALUE = 2_000  # characters shown of one value


@dataclass(frozen=True)
class Line:
    """A change as the page shows it: `values` are rows of name, before, after."""

    change: Change
    title: str
    values: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, change: Change) -> Line:
        return cls(change, audit.title_of(change.action), tuple(_rows(change)))


def _rows(change: Change) -> Iterator[tuple[str, str, str]]:
    old, new = change.old, change.new
    if not (isinstance(old, dict) or isinstance(new, dict)):
        if (old, new) != (None, None):
            yield "", _shown(old), _shown(new)
        return
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    for name in {**before, **after}:
        yield name, _shown(before.get(name)), _shown(after.get(name))


def _shown(value: Any) -> str:
    """A value for people; nothing is an empty text."""
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


@login_required
@require_safe
def log(request: HttpRequest, slug: str) -> HttpResponse:
    """What was changed in the workspace; for those who manage it."""
    workspace = _managed(request, slug)
    asked = _asked(request)
    found = list(audit.changes_of(workspace, person(request), **asked)[: ON_A_PAGE + 1])
    shown, kept = found[:ON_A_PAGE], {"q": asked["words"], "of": asked["action"]}
    older = len(found) > ON_A_PAGE
    return render(
        request,
        "workspace/audit.html",
        {
            "workspace": workspace,
            "lines": [Line.of(change) for change in shown],
            "nouns": audit.nouns(workspace),
            "asked": asked,
            "filters": urlencode(kept),
            "older": urlencode({**kept, "before": shown[-1].pk}) if older else "",
        },
    )


@login_required
@require_safe
def download(request: HttpRequest, slug: str) -> StreamingHttpResponse:
    """The same changes as NDJSON, newest first, one object a line."""
    workspace = _managed(request, slug)
    found = audit.changes_of(workspace, person(request), **_asked(request))
    answer = StreamingHttpResponse(
        (_ndjson(change) for change in found.iterator(chunk_size=500)),
        content_type="application/x-ndjson",
    )
    name = f"audit-{workspace.pk}.ndjson"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _managed(request: HttpRequest, slug: str) -> Workspace:
    workspace = workspace_for(person(request), slug)
    require(person(request), workspace, "manage_workspace")
    return workspace


def _asked(request: HttpRequest) -> dict[str, Any]:
    words = request.GET.get("q", "").replace("\0", "").strip()[:MOST_WORDS]
    before = request.GET.get("before", "")
    return {
        "words": words,
        "action": request.GET.get("of", "").replace("\0", "")[:60],
        "before": int(before) if before.isdecimal() and len(before) < 19 else None,
    }


def _ndjson(change: Change) -> str:
    row = {
        "id": change.pk,
        "at": change.at.isoformat(),
        "by": change.by.username if change.by else None,
        "action": change.action,
        "subject": change.subject,
        "old": change.old,
        "new": change.new,
        "conversation": str(change.conversation_id) if change.conversation_id else None,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"
