"""What people answer: questions, approvals, plans and changes of mode or level."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import events, mode_actions, permissions, runs
from agents.models import Wait
from agents.providers.wire import clean_values
from agents.tools.registry import catalogue
from workspace import access, audit
from workspace.access import require
from workspace.errors import (
    BadInput,
    Conflict,
)
from workspace.events import emit
from workspace.models import (
    User,
    Workspace,
)

DECISIONS = ("once", "conversation", "always", "deny")


def answer_wait(*, wait: Wait, user: User, answer: dict[str, Any]) -> Wait:
    """Answer a question or an approval; whoever comes first decides.

    Raises Conflict, naming who answered, for everyone after that.
    """
    ability: access.Ability = "answer" if wait.kind == Wait.Kind.QUESTION else "approve"
    require(user, wait.run.workspace, ability)
    answer = clean_values(answer)
    if wait.kind == Wait.Kind.APPROVAL:
        runs.require_own(user, wait.run, "approve_any")
        answer = _approval(wait, user, answer)
    elif wait.kind == Wait.Kind.PLAN:
        runs.require_own(user, wait.run, "approve_any")
        answer = _agreement(answer)
    elif wait.kind == Wait.Kind.QUESTION:
        answer = _question_answers(wait, answer)
    else:
        raise BadInput(_("This cannot be answered; it ends by itself."))
    with transaction.atomic():
        runs.lock_row(wait.run.conversation_id)
        _store_answer(wait, user, answer)
        if answer.get("decision") == "always":
            _add_allow_rule(wait.run.workspace, answer["rule"], user)
        if wait.kind == Wait.Kind.APPROVAL:
            _note_decision(wait, user, answer)
        if wait.kind == Wait.Kind.PLAN and answer["decision"] == "once":
            mode_actions.decide_change(wait, user)
        runs.wake(wait.run)
    wait.refresh_from_db()
    return wait


def _store_answer(wait: Wait, user: User, answer: dict[str, Any]) -> None:
    won = Wait.objects.filter(pk=wait.pk, outcome="").update(
        outcome=Wait.Outcome.ANSWERED,
        answer=answer,
        answered_by=user,
        answered_at=timezone.now(),
    )
    if not won:
        raise _too_late(wait)
    emit(
        events.WaitAnswered(
            **runs.ids_of(wait.run),
            wait_id=wait.pk,
            wait_kind=wait.kind,
            by=str(user),
            answer=answer,
        )
    )
    runs.push_wait(wait, wait.run.conversation, "wait.closed")


def _too_late(wait: Wait) -> Conflict:
    late = Wait.objects.select_related("answered_by").get(pk=wait.pk)
    if late.outcome == Wait.Outcome.EXPIRED:
        return Conflict(_("Nobody answered in time, so this counted as denied."))
    if late.outcome == Wait.Outcome.CANCELLED:
        return Conflict(_("The run has ended; there is nothing to answer any more."))
    return Conflict(
        _("%(name)s has already answered this.") % {"name": late.answered_by}
    )


def _agreement(answer: dict[str, Any]) -> dict[str, Any]:
    """To a plan or a change of mode or level: each is decided once, for itself."""
    if answer.get("decision") not in ("once", "deny"):
        raise BadInput(_("Choose once or deny."))
    reason = str(answer.get("reason", "")).strip()[:2000]
    return {"decision": answer["decision"], "reason": reason}


def _approval(wait: Wait, user: User, answer: dict[str, Any]) -> dict[str, Any]:
    decision = answer.get("decision")
    if decision not in DECISIONS:
        raise BadInput(_("Choose once, conversation, always or deny."))
    if decision == "deny":
        reason = str(answer.get("reason", "")).strip()[:2000]
        return {"decision": "deny", "reason": reason}
    if decision == "once":
        return {"decision": "once"}
    if decision == "always":
        require(user, wait.run.workspace, "manage_permissions")
    tool = catalogue(wait.run.workspace_id).resolve(wait.payload["tool"])
    if tool is None:
        raise Conflict(
            _("This tool no longer exists. Deny the call, or allow it once.")
        )
    arguments = tool.arguments.model_validate_json(wait.payload["arguments"])
    rule = permissions.rule_for(tool, arguments.model_dump())
    return {"decision": decision, "rule": rule}


def _question_answers(wait: Wait, answer: dict[str, Any]) -> dict[str, Any]:
    """Check the answers against the questions: one each, only offered options."""
    questions = wait.payload["questions"]
    given = answer.get("answers")
    if not isinstance(given, list) or len(given) != len(questions):
        raise BadInput(_("Every question needs an answer."))
    kept = []
    for question, one in zip(questions, given, strict=True):
        chosen = [str(label) for label in one.get("chosen") or ()]
        text = str(one.get("text") or "").strip()[:10_000]
        if not set(chosen) <= set(question["options"]):
            raise BadInput(_("One of the chosen options was not offered."))
        if len(chosen) > 1 and not question.get("multi"):
            raise BadInput(_("Choose one option only."))
        if not chosen and not text:
            raise BadInput(_("Every question needs an answer."))
        kept.append({"chosen": chosen, "text": text})
    return {"answers": kept}


def _note_decision(wait: Wait, user: User, answer: dict[str, Any]) -> None:
    """Who allowed or denied which tool; the arguments stay in the transcript."""
    audit.record(
        "call.denied" if answer["decision"] == "deny" else "call.allowed",
        by=user,
        workspace=wait.run.workspace,
        conversation=wait.run.conversation,
        subject=wait.payload["tool"],
        new=answer | {"arguments": wait.argument_hash[:16]},
    )


def _add_allow_rule(workspace: Workspace, rule: str, by: User) -> None:
    fresh = Workspace.objects.select_for_update().get(pk=workspace.pk)
    allow = fresh.permission_rules.get("allow", [])
    if rule not in allow:
        fresh.permission_rules = {**fresh.permission_rules, "allow": [*allow, rule]}
        fresh.save(update_fields=["permission_rules"])
        old, new = {"allow": allow}, {"allow": [*allow, rule]}
        audit.record("permission.rules", by=by, workspace=fresh, old=old, new=new)
