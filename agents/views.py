"""The chat page's part that agents play: posting, stopping, answering, figures."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID, uuid4

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from agents import (
    actions,
    answer_actions,
    compact_actions,
    gauge,
    mentions,
    mode_actions,
    queries,
)
from agents.children.showing import cards_of
from agents.models import Wait
from agents.typed import Choice, choice_of, focus_of, is_command, opened_by
from workspace import attachments, attachments_views, images
from workspace.access import can, conversation_for, membership, workspace_for
from workspace.errors import BadInput, Conflict, NotVisible
from workspace.middleware import wants_json
from workspace.models import Conversation, Entry, QueuedMessage, User

#: Characters of one message; more belongs into a file.
LONGEST_MESSAGE = 1_000_000
LONGEST_CLIENT_ID = 64
#: Turns whose figures one request asks for.
MOST_TURNS = 100


def person(request: HttpRequest) -> User:
    """Who asks, on pages behind `login_required`."""
    return cast(User, request.user)


def message_text(request: HttpRequest, *, needed: bool = True) -> str:
    """What was written. Raises BadInput when there is nothing, or far too much."""
    text = request.POST.get("text", "").replace("\r\n", "\n").strip()
    if needed and not text:
        raise BadInput(_("The message is empty; write something first."))
    if len(text) > LONGEST_MESSAGE:
        raise BadInput(
            _("The message has over a million characters. Upload it as a file instead.")
        )
    return text


def attached(request: HttpRequest, conversation: Conversation) -> list[UUID]:
    """What the message carries: ids from a script, files from a plain form."""
    given = request.POST.get("attached", "")
    try:
        ids = [UUID(one) for one in given.split(",") if one]
    except ValueError:
        raise BadInput(_("attached must be a list of ids.")) from None
    for file in request.FILES.getlist("files")[: attachments.MOST_OF_MESSAGE]:
        images.check_size(file.size or 0)
        row = attachments.attach(
            conversation=conversation,
            author=person(request),
            name=file.name or "",
            data=file.read(),
        )
        ids.append(row.pk)
    return ids


def client_id(request: HttpRequest) -> str:
    """The sender's own id of this message; a plain form brings the page's."""
    given = request.POST.get("client_id", "").strip()
    if len(given) > LONGEST_CLIENT_ID:
        raise BadInput(_("client_id is longer than 64 characters."))
    return given or str(uuid4())


def seq_of(request: HttpRequest) -> int:
    given = request.POST.get("to_seq", "")
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise BadInput(_("to_seq must be the number of a message."))
    return int(given)


def done(
    request: HttpRequest, conversation: Conversation, **answer: Any
) -> HttpResponse:
    """JSON for a script, back to the conversation for a plain form."""
    if wants_json(request):
        return JsonResponse({"ok": True, **answer})
    return redirect(conversation)


@login_required
@require_POST
def new(request: HttpRequest, slug: str) -> HttpResponse:
    """Start a conversation, with its first message if one was written."""
    workspace = workspace_for(request.user, slug, "post")
    if focus_of(request.POST.get("text", "")) is not None:
        raise Conflict(
            _("Nothing in this conversation is old enough to be compacted yet.")
        )
    text = request.POST.get("text", "").strip()
    mentions.check(workspace, text)
    choice = choice_of(text)
    conversation = actions.start_conversation(
        workspace=workspace,
        author=person(request),
        agent_name=request.POST.get("agent", "") or "assistant",
        private="private" in request.POST,
        mode=choice.name if choice and choice.kind == "mode" else "chat",
    )
    if choice:
        chosen(conversation, person(request), choice)
        return redirect(conversation)
    if address := opened_by(conversation, text):
        return redirect(address)
    if text:
        actions.post_message(
            conversation=conversation,
            author=person(request),
            text=message_text(request),
            client_id=client_id(request),
        )
    return redirect(conversation)


@login_required
@require_POST
def post(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Take a message. The same client id again is answered as the first time."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    if address := opened_by(conversation, request.POST.get("text", "")):
        if wants_json(request):
            return JsonResponse({"ok": True, "open": address})
        return redirect(address)
    actions.check_pace(person(request))
    focus = focus_of(request.POST.get("text", ""))
    if focus is not None:
        notice = compact_actions.compact(
            conversation=conversation, user=person(request), focus=focus
        )
        return done(request, conversation, seq=notice.seq)
    if choice := choice_of(request.POST.get("text", "")):
        told = chosen(conversation, person(request), choice)
        return done(request, conversation, seq=told.seq if told else None)
    files = attached(request, conversation)
    posted = actions.post_message(
        conversation=conversation,
        author=person(request),
        text=message_text(request, needed=not files),
        client_id=client_id(request),
        attached=files,
        when="queue" if request.POST.get("when") == "queue" else "steer",
    )
    return done(
        request,
        conversation,
        seq=posted.entry.seq if posted.entry else None,
        turn=str(posted.turn.pk) if posted.turn else None,
        queued=str(posted.queued.pk) if posted.queued else None,
        duplicate=posted.duplicate,
    )


def chosen(conversation: Conversation, user: User, choice: Choice) -> Entry | None:
    """Carry out a typed choice; returns the line of the transcript that tells of it."""
    if choice.kind == "level":
        return mode_actions.set_level(
            conversation=conversation, user=user, level=choice.name
        )
    return mode_actions.set_mode(conversation=conversation, user=user, mode=choice.name)


@login_required
@require_POST
def stop(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    actions.stop_turn(conversation=conversation, user=person(request))
    return done(request, conversation)


@login_required
@require_POST
def retry(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Answer a message again; the old answer stays in the transcript."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    actions.retry_turn(
        conversation=conversation, user=person(request), to_seq=seq_of(request)
    )
    return done(request, conversation)


@login_required
@require_POST
def resend(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Put another message in place of one, and answer that."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    text = message_text(request)
    if is_command(conversation, text):
        raise BadInput(_("A command cannot take the place of a message."))
    actions.edit_and_resend(
        conversation=conversation,
        author=person(request),
        to_seq=seq_of(request),
        text=text,
        client_id=client_id(request),
    )
    return done(request, conversation)


@login_required
@require_POST
def withdraw(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Take back a message that waits for its turn; its text goes back to the writer."""
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    queued = _queued(conversation, request.POST.get("queued", ""))
    actions.withdraw_queued(queued=queued, user=person(request))
    return done(
        request,
        conversation,
        text=queued.body.get("text", ""),
        attached=[
            attachments_views.described(row)
            for row in attachments.unsent(conversation, person(request))
        ],
    )


def _queued(conversation: Conversation, given: str) -> QueuedMessage:
    try:
        queued_id = UUID(given)
    except ValueError:
        raise BadInput(_("That is not the id of a queued message.")) from None
    queued = conversation.queued_messages.filter(pk=queued_id).first()
    if queued is None:
        raise NotVisible
    return queued


@login_required
@require_POST
def level(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    conversation = conversation_for(request.user, slug, conversation_id, "post")
    mode_actions.set_level(
        conversation=conversation,
        user=person(request),
        level=request.POST.get("level", ""),
    )
    return done(request, conversation)


@login_required
@require_GET
def waits(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Open questions and approvals: as a fragment, or as a page of their own."""
    conversation = conversation_for(request.user, slug, conversation_id)
    member = membership(request.user, conversation.workspace)
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "cards": [
            gauge.WaitCard.of(wait, person(request), member)
            for wait in queries.open_waits(conversation)
        ],
    }
    is_part = request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
    return render(
        request, "agents/_waits.html" if is_part else "agents/waits.html", context
    )


@login_required
@require_GET
def children(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Children at work: as a fragment, or as a page of their own."""
    conversation = conversation_for(request.user, slug, conversation_id)
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "cards": cards_of(conversation),
        "may_stop": can(request.user, conversation.workspace, "post"),
    }
    is_part = request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
    return render(
        request, "agents/_children.html" if is_part else "agents/children.html", context
    )


@login_required
@require_POST
def answer(
    request: HttpRequest, slug: str, conversation_id: UUID, wait_id: UUID
) -> HttpResponse:
    """Answer a question or decide an approval; whoever comes first."""
    conversation = conversation_for(request.user, slug, conversation_id, "answer")
    wait = queries.waits_of(conversation).filter(pk=wait_id).first()
    if wait is None:
        raise NotVisible
    answer_actions.answer_wait(
        wait=wait, user=person(request), answer=given_answer(request, wait)
    )
    return done(request, conversation)


def given_answer(request: HttpRequest, wait: Wait) -> dict[str, Any]:
    """The form's fields in the shape that `answer_wait` takes."""
    if wait.kind != Wait.Kind.QUESTION:
        return {
            "decision": request.POST.get("decision", ""),
            "reason": request.POST.get("reason", "").strip()[:2000],
        }
    questions = wait.payload.get("questions") or []
    return {
        "answers": [
            {
                "chosen": request.POST.getlist(f"chosen-{index}"),
                "text": request.POST.get(f"text-{index}", "").strip()[:20_000],
            }
            for index in range(len(questions))
        ]
    }


@login_required
@require_GET
def figures(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Tokens and cost of turns, the context gauge, what runs now."""
    conversation = conversation_for(request.user, slug, conversation_id)
    shown = gauge.header_of(conversation)
    context = {
        "conversation": conversation,
        "workspace": conversation.workspace,
        "header": shown,
        "may_post": can(request.user, conversation.workspace, "post"),
        "may_manage": can(request.user, conversation.workspace, "manage_endpoints"),
    }
    if not wants_json(request):
        return render(request, "agents/_header.html", context)
    rendered = render(request, "agents/_header.html", context)
    return JsonResponse(
        {
            "header": rendered.content.decode(),
            "agent": shown.agent_title,
            "turns": turn_lines(request, conversation),
            "running": [call.call_id for call in queries.running_calls(conversation)],
        }
    )


def turn_lines(
    request: HttpRequest, conversation: Conversation
) -> dict[str, dict[str, str]]:
    """What stands behind the agent's name for each turn asked about."""
    asked = request.GET.get("turns", "").split(",")[:MOST_TURNS]
    try:
        ids = [UUID(one) for one in asked if one]
    except ValueError:
        raise BadInput(_("turns must be a list of ids.")) from None
    own = list(conversation.turns.filter(pk__in=ids).values_list("pk", flat=True))
    found = queries.turn_figures(own)
    return {str(turn): gauge.turn_line(shown) for turn, shown in found.items()}
