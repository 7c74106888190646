"""What people do with agents: every write that starts, stops or answers one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import mode_actions, runs
from agents.context.startup import startup_body, surface_body
from agents.context.surroundings import look_around
from agents.endpoints import offered_models
from agents.instructions import remember_first
from agents.invoking import with_skill
from agents.mentions import Brought, brought_by
from agents.models import Agent, Run
from agents.providers.wire import clean
from agents.seeding import DEFAULT_AGENT, seed_workspace
from workspace import attachments, audit, live, pace, transcript
from workspace.access import require
from workspace.actions import conversations
from workspace.errors import (
    BadInput,
    Conflict,
    Gone,
    NotAllowed,
    NotVisible,
    TooMuch,
)
from workspace.models import (
    Conversation,
    Entry,
    QueuedMessage,
    Turn,
    User,
    Workspace,
)
from workspace.prepared import Select, given
from workspace.transcript import Draft

#: Bytes of one message.
LARGEST_MESSAGE = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of a message: an entry now, or a place in the queue."""

    entry: Entry | None
    queued: QueuedMessage | None
    turn: Turn | None
    duplicate: bool


def agent_of(conversation: Conversation) -> Agent:
    """The conversation's main agent. Raises Conflict when it was removed."""
    if conversation.agent_name == DEFAULT_AGENT:
        return seed_workspace(conversation.workspace)
    agent = Agent.objects.filter(
        workspace_id=conversation.workspace_id,
        name=conversation.agent_name,
        deleted_at=None,
    ).first()
    if agent is None:
        raise Conflict(
            _(
                "The agent %(name)s of this conversation no longer exists. Start a new "
                "conversation with another agent."
            )
            % {"name": conversation.agent_name}
        )
    return agent


def start_conversation(
    *,
    workspace: Workspace,
    author: User,
    agent_name: str = DEFAULT_AGENT,
    title: str = "",
    private: bool = False,
    mode: str = "chat",
) -> Conversation:
    """Begin a conversation: its first entries fix what every request begins with."""
    require(author, workspace, "private" if private else "post")
    conversation = Conversation(
        workspace=workspace,
        title=conversations.plain_title(title)[: conversations.MAX_TITLE],
        created_by=author,
        private=private,
        agent_name=clean(agent_name),
        mode=mode_actions.known_mode(mode),
    )
    agent = agent_of(conversation)
    remember_first(workspace)
    around = look_around(conversation)  # reads files, so before the transaction
    [startup] = transcript.seal(
        conversation.pk,
        Draft(kind=Entry.Kind.STARTUP, body=startup_body(conversation, around)),
        workspace_id=workspace.pk,
    )
    with transaction.atomic():
        conversation.save(force_insert=True)
        surface = surface_body(agent, conversation)
        transcript.append(
            conversation.pk, Draft(kind=Entry.Kind.SURFACE, body=surface), startup
        )
    return conversation


def post_message(
    *,
    conversation: Conversation,
    author: User,
    text: str,
    client_id: str,
    when: str = "steer",
    attached: Sequence[UUID] = (),
) -> Posted:
    """Accept a message, once per client id: stored now, answered whatever happens.

    While a turn is at work the message steers it (the model sees it before its next
    call) or, with `when="queue"`, waits for the turn's end.
    """
    require(author, conversation.workspace, "post")
    runs.require_people(conversation)
    _check_message(text, client_id, when, attached)
    files = attachments.chosen(conversation, author, attached)
    brought = brought_by(conversation, text)
    body = _message_body(conversation, author, text)
    body |= attachments.message_parts(files)
    body = _with_brought(body, brought)
    try:
        with transaction.atomic():
            attachments.mark_sent(files)
            posted = _post(conversation, author, body, client_id, when)
            _register(conversation, brought, posted)
            return posted
    except IntegrityError:
        return _earlier_or_conflict(conversation, client_id)


def _earlier_or_conflict(conversation: Conversation, client_id: str) -> Posted:
    """What the same post came to before; Conflict if it is nowhere to be seen."""
    if earlier := _earlier(conversation, client_id):
        return earlier
    raise Conflict(_("Somebody was faster. Nothing is lost: send it again."))


def _check_message(
    text: str, client_id: str, when: str, attached: Sequence[UUID] = ()
) -> None:
    if not text.strip() and not attached:
        raise BadInput(_("The message is empty. Write something first."))
    if len(text.encode("utf-8", "replace")) > LARGEST_MESSAGE:
        raise TooMuch(
            _("The message is larger than 10 MB. Put the text into a file instead.")
        )
    if not client_id or len(client_id) > 64 or "\0" in client_id:
        raise BadInput(_("A message needs a client id of 1 to 64 characters."))
    if when not in ("steer", "queue"):
        raise BadInput(_("A message can steer or queue, nothing else."))


def _message_body(
    conversation: Conversation, author: User, text: str
) -> dict[str, Any]:
    """Who speaks is named to the model when it is not the one who began.

    A message that begins with the `/name` of a skill brings its text along. Reads files.
    """
    body = with_skill(conversation, {"text": clean(text)})
    if author.pk != conversation.created_by_id:
        body["name"] = str(author)
    return body


def _with_brought(body: dict[str, Any], brought: Brought) -> dict[str, Any]:
    """The body of a message, with what its mentions bring; each image once."""
    known = (*body.get("images", ()), *brought.pictures)
    pictures = list({one["sha256"]: one for one in known}.values())
    return body | brought.parts() | ({"images": pictures} if pictures else {})


def _register(conversation: Conversation, brought: Brought, posted: Posted) -> None:
    """Note the images that mentions brought, once they are part of a message."""
    if not posted.duplicate:
        attachments.register_images(
            conversation.pk, conversation.workspace_id, brought.pictures
        )


_QUEUED = Select[QueuedMessage](
    lambda: QueuedMessage.objects.filter(
        conversation=given("conversation", QueuedMessage, "conversation"),
        client_id=given("client_id", QueuedMessage, "client_id"),
    )
)


def _post(
    conversation: Conversation,
    author: User,
    body: dict[str, Any],
    client_id: str,
    when: str,
) -> Posted:
    runs.lock_row(conversation.pk)
    if _QUEUED.first(conversation=conversation.pk, client_id=client_id):
        return _earlier_or_conflict(conversation, client_id)
    at_work = runs.at_work(conversation)
    if at_work and when == "queue":
        return _queue(conversation, author, body, client_id)
    if at_work:
        entry = conversations.say(
            turn=at_work.turn, author=author, body=body, client_id=client_id
        )
        runs.hear(at_work)
        return Posted(entry, None, at_work.turn, duplicate=False)
    agent = agent_of(conversation)
    turn, entry = conversations.open_turn(
        conversation=conversation, author=author, body=body, client_id=client_id
    )
    runs.open_run(
        turn=turn,
        agent=agent,
        trigger="message",
        started_by=author,
        since_seq=entry.seq,
    )
    return Posted(entry, None, turn, duplicate=False)


def _queue(
    conversation: Conversation, author: User, body: dict[str, Any], client_id: str
) -> Posted:
    queued = QueuedMessage.objects.create(
        conversation=conversation, client_id=client_id, author=author, body=body
    )
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "queue.changed"}
    )
    return Posted(None, queued, None, duplicate=False)


def _earlier(conversation: Conversation, client_id: str) -> Posted | None:
    """What an earlier try of the same post came to; None if this is the first."""
    entry = transcript.find_by_client_id(conversation.pk, client_id)
    if entry is not None:
        return Posted(entry, None, entry.turn, duplicate=True)
    queued = _QUEUED.first(conversation=conversation.pk, client_id=client_id)
    return Posted(None, queued, None, duplicate=True) if queued else None


@transaction.atomic
def withdraw_queued(*, queued: QueuedMessage, user: User) -> None:
    """Take back one's own message before its turn begins."""
    require(user, queued.conversation.workspace, "post")
    if queued.author_id != user.pk:
        raise NotAllowed(_("Only its author can take back a queued message."))
    runs.lock_row(queued.conversation_id)
    taken = QueuedMessage.objects.filter(
        pk=queued.pk, sent_at=None, withdrawn_at=None
    ).update(withdrawn_at=timezone.now())
    if not taken:
        raise Conflict(_("This message is no longer in the queue."))
    attachments.release(queued.conversation, user, queued.body)
    live.push_on_commit(
        live.conversation_group(queued.conversation_id), {"type": "queue.changed"}
    )


def stop_turn(*, conversation: Conversation, user: User) -> Run:
    """Stop what the conversation's agent does now, in whatever state it is.

    Raises Conflict when nothing is at work.
    """
    require(user, conversation.workspace, "post")
    with transaction.atomic():
        if conversation.parent_id:
            runs.lock_row(conversation.parent_id)
        runs.lock_row(conversation.pk)
        run = runs.at_work(conversation)
        if run is None:
            raise Conflict(_("Nothing is running here any more."))
        runs.require_own(user, run, "stop_any")
        runs.request_stop(run, user)
    return run


@transaction.atomic
def retry_turn(*, conversation: Conversation, user: User, to_seq: int) -> Run:
    """Answer a message anew: later entries stay, but leave the model's view."""
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    runs.lock_row(conversation.pk)
    entry = _user_entry(conversation, to_seq)
    _require_idle(conversation)
    assert entry.turn, "a user message always belongs to a turn"
    notice = _rewind(conversation, entry.turn, to_seq, user)
    run = runs.open_run(
        turn=entry.turn,
        agent=agent_of(conversation),
        trigger="retry",
        started_by=user,
        since_seq=notice.seq,
    )
    runs.show(run, Turn.State.QUEUED)
    return run


def edit_and_resend(
    *, conversation: Conversation, author: User, to_seq: int, text: str, client_id: str
) -> Posted:
    """Say a message in other words: the old one and what followed leave the view.

    What was attached to it stays attached.
    """
    require(author, conversation.workspace, "post")
    runs.require_people(conversation)
    _check_message(text, client_id, "steer")
    brought = brought_by(conversation, text)
    body = _message_body(conversation, author, text) | {"supersedes_seq": to_seq}
    with transaction.atomic():
        posted = _replace_message(
            conversation, author, to_seq, body, client_id, brought
        )
        _register(conversation, brought, posted)
        return posted


def _replace_message(
    conversation: Conversation,
    author: User,
    to_seq: int,
    body: dict[str, Any],
    client_id: str,
    brought: Brought,
) -> Posted:
    runs.lock_row(conversation.pk)
    if earlier := _earlier(conversation, client_id):
        return earlier
    entry = _user_entry(conversation, to_seq)
    _require_idle(conversation)
    if entry.author_id != author.pk:
        raise NotAllowed(_("Only its author can edit a message."))
    assert entry.turn, "a user message always belongs to a turn"
    _rewind(conversation, entry.turn, to_seq - 1, author)
    old = transcript.body(entry)
    body |= {key: old[key] for key in ("images", "files") if key in old}
    body = _with_brought(body, brought)
    return _post(conversation, author, body, client_id, "steer")


def _user_entry(conversation: Conversation, seq: int) -> Entry:
    entries = Entry.objects.filter(
        conversation=conversation, seq=seq, kind=Entry.Kind.USER
    )
    found: Entry | None = entries.select_related("turn").first()
    if found is None:
        raise NotVisible(_("There is no message of a person at this place."))
    if not transcript.body(found):
        raise Gone(_("That message was erased; there is nothing left to answer."))
    _require_standing(conversation, seq)
    return found


def _require_standing(conversation: Conversation, seq: int) -> None:
    """A message that somebody went back behind is no longer in the model's view."""
    notices = conversation.entries.filter(kind=Entry.Kind.NOTICE, seq__gt=seq)
    for body in transcript.bodies(list(notices.select_related("stored"))):
        if body.get("type") == "rewind" and body["to_seq"] < seq:
            raise Conflict(
                _(
                    "The conversation went back to an earlier message, so this one is no "
                    "longer a part of it. Send it again as a new message."
                )
            )


def _require_idle(conversation: Conversation) -> None:
    if runs.at_work(conversation):
        raise Conflict(
            _("The agent is at work here. Stop it first, or wait until it is done.")
        )


def _rewind(conversation: Conversation, turn: Turn, to_seq: int, user: User) -> Entry:
    body = {
        "type": "rewind",
        "to_seq": to_seq,
        "to_model": False,
        "text": f"{user} went back to message {to_seq}.",
    }
    draft = Draft(kind=Entry.Kind.NOTICE, body=body, turn=turn, author=user)
    [entry] = transcript.append(conversation.pk, draft)
    conversations.push_appended(conversation.pk, [entry])
    return entry


@transaction.atomic
def set_model(*, conversation: Conversation, user: User, model_name: str) -> None:
    """Choose who answers from the next turn on; "" leaves it to the agent.

    A notice in the transcript says so to people; the model is told nothing.
    """
    require(user, conversation.workspace, "post")
    runs.require_people(conversation)
    offered = offered_models(conversation.workspace)
    if model_name and not offered.filter(name=model_name).exists():
        raise BadInput(
            _("The model %(name)s is not offered here. Choose one from the list.")
            % {"name": repr(model_name)}
        )
    locked = runs.lock(conversation.pk)
    old = locked.model_name
    if old == model_name:
        return
    Conversation.objects.filter(pk=locked.pk).update(model_name=model_name)
    conversation.model_name = model_name
    audit.record(
        "conversation.model",
        by=user,
        workspace=conversation.workspace,
        conversation=conversation,
        old=old,
        new=model_name,
    )
    _tell_of_model(conversation, user)


def _tell_of_model(conversation: Conversation, user: User) -> None:
    name = conversation.model_name or _("the agent's own model")
    text = _("%(user)s chose %(model)s.") % {"user": user, "model": name}
    body = {"type": "model", "to_model": False, "text": text}
    [entry] = transcript.append(
        conversation.pk, Draft(kind=Entry.Kind.NOTICE, body=body, author=user)
    )
    conversations.push_appended(conversation.pk, [entry])
    live.push_on_commit(
        live.conversation_group(conversation.pk), {"type": "conversation.changed"}
    )


def check_pace(user: User) -> None:
    """Raise TooFast for someone who posts faster than people type."""
    most = settings.POSTS_PER_MINUTE
    sentence = _(
        "That is more than %(n)d messages in a minute. Wait a moment, then send."
    ) % {"n": most}
    pace.check(f"posts:{user.pk}", most, sentence)
