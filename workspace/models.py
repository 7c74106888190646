"""People, workspaces, conversations and their append-only transcripts."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Expression, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workspace.errors import ImmutableEntry


class User(AbstractUser):
    """A person who signs in. Never hard-deleted: transcripts name their authors."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    display_name = models.CharField(max_length=80, blank=True)
    language = models.CharField(max_length=8, default="en")
    theme = models.CharField(max_length=8, default="auto")
    deleted_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.display_name or self.username


class WorkspaceQuerySet(models.QuerySet["Workspace"]):
    def visible_to(self, user: User) -> WorkspaceQuerySet:
        """The workspaces a person is a member of."""
        return self.filter(deleted_at=None, memberships__user=user)


class Workspace(models.Model):
    """The tenant boundary: members, conversations, agents, files and budgets."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=60, unique=True, allow_unicode=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    network = models.BooleanField(
        default=False, help_text="Whether sandboxed commands may reach the network."
    )
    permission_rules = models.JSONField(
        default=dict, blank=True, help_text="permissions.allow, .ask and .deny lists."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = WorkspaceQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("workspace:conversations", args=[self.slug])

    @property
    def root(self) -> Path:
        """The folder that tools see as /workspace."""
        return Path(settings.VAR_DIR) / "workspaces" / str(self.pk) / "files"


class Role(models.TextChoices):
    VIEWER = "viewer", _("Viewer")
    MEMBER = "member", _("Member")
    ADMIN = "admin", _("Admin")
    OWNER = "owner", _("Owner")


class Membership(models.Model):
    """A person in a workspace, with a role."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="memberships"
    )
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user"], name="one_membership_per_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace} ({self.role})"


class Invitation(models.Model):
    """A single-use link into a workspace, or (without one) to the first account."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.CASCADE, related_name="invitations"
    )
    role = models.CharField(max_length=8, choices=Role.choices, default=Role.MEMBER)
    email = models.EmailField(blank=True)
    token_digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    accepted_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"Invitation {self.pk} ({self.role})"


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def visible_to(self, user: User | Expression) -> ConversationQuerySet:
        """What a person may know of: shared ones of their workspaces, own private ones.

        A child is as visible as the conversation of people that it works for.
        """
        mine = self.filter(
            Q(top=None) | Q(top__deleted_at=None),
            deleted_at=None,
            workspace__deleted_at=None,
            workspace__memberships__user=user,
        )
        own = Q(private=False) | Q(created_by=user) | Q(invited=user)
        of_top = Q(top__private=False) | Q(top__created_by=user) | Q(top__invited=user)
        return mine.filter((Q(top=None) & own) | of_top).distinct()

    def of_people(self) -> ConversationQuerySet:
        """Without children: what lists show."""
        return self.filter(parent=None)


class ApprovalLevel(models.TextChoices):
    PLAN = "plan", "Plan: read only"
    ACCEPT = "accept", "Accept: files yes, ask for the rest"
    AUTO = "auto", "Auto: only configuration is asked"


class Conversation(models.Model):
    """A thread of people and one main agent; owns one transcript.

    The agent, mode and model are named, not referenced: they belong to an upper
    layer, and the transcript itself records what was sent.

    A child works for its `parent`, and so for the conversation of people at the `top`,
    which decides who may see it and what may be done in it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="conversations"
    )
    title = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    private = models.BooleanField(default=False)
    invited = models.ManyToManyField(User, blank=True, related_name="+")
    parent = models.ForeignKey(
        "self",
        null=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="children",
    )
    top = models.ForeignKey(
        "self", null=True, editable=False, on_delete=models.PROTECT, related_name="+"
    )
    agent_name = models.SlugField(max_length=60, default="assistant")
    model_name = models.CharField(
        max_length=160, blank=True, help_text="Overrides the agent's model when set."
    )
    mode = models.CharField(max_length=40, default="chat")
    approval_level = models.CharField(
        max_length=8, choices=ApprovalLevel.choices, default=ApprovalLevel.ACCEPT
    )
    head_seq = models.PositiveBigIntegerField(default=0)
    head_digest = models.CharField(max_length=64, default="0" * 64)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(default=timezone.now)
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["workspace", "-updated_at"])]

    def __str__(self) -> str:
        return self.title or f"Conversation {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("workspace:conversation", args=[self.workspace.slug, self.pk])

    @property
    def root(self) -> Path:
        """The folder its tools work in."""
        return self.workspace.root

    @property
    def people_id(self) -> uuid.UUID:
        """The conversation of people that it works for; its own, unless it is a child."""
        return self.top_id or self.pk


class ReadMark(models.Model):
    """How far a person has read a conversation."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="read_marks"
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="read_marks")
    seq = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "user"], name="one_read_mark_per_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} read to {self.seq}"


class Turn(models.Model):
    """All the work that answers one user message; its state is what people see."""

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    OPEN = (State.QUEUED, State.RUNNING, State.WAITING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="turns"
    )
    author = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    message = models.TextField(
        blank=True, help_text="Why it failed or stopped: a sentence for people."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["conversation", "created_at"])]

    def __str__(self) -> str:
        return f"Turn {self.pk} ({self.state})"


class QueuedMessage(models.Model):
    """An accepted message that waits for the running turn to end.

    It becomes a `user` entry, with its turn, when that turn ends; until then its
    author can take it back.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="queued_messages"
    )
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    client_id = models.CharField(max_length=64)
    body = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    sent_at = models.DateTimeField(null=True)
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "client_id"], name="a_queued_message_once"
            )
        ]

    def __str__(self) -> str:
        return f"Queued message {self.pk}"


class AppendOnly(models.QuerySet[Any]):
    """Refuses every bulk change before the database's triggers have to."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImmutableEntry(
            "Entries are append-only: add a new entry instead of changing one."
        )

    update = delete = bulk_update = update_or_create = _refuse


class Entry(models.Model):
    """One immutable record of a transcript, chained to the one before it."""

    class Kind(models.TextChoices):
        STARTUP = "startup", "Startup context"
        SURFACE = "surface", "Declared tools"
        USER = "user", "User message"
        ASSISTANT = "assistant", "Assistant message"
        TOOL_RESULT = "tool_result", "Tool result"
        NOTICE = "notice", "Notice"
        SUMMARY = "summary", "Summary"
        REDACTION = "redaction", "Redaction"

    id = models.BigAutoField(primary_key=True)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="entries"
    )
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=12, choices=Kind.choices)
    turn = models.ForeignKey(
        Turn, null=True, on_delete=models.PROTECT, related_name="entries"
    )
    author = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    client_id = models.CharField(
        max_length=64,
        null=True,
        help_text="The sender's own id: posting is idempotent.",
    )
    body_digest = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    objects = AppendOnly.as_manager()

    class Meta:
        base_manager_name = "objects"
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "seq"], name="one_entry_per_seq"
            ),
            models.UniqueConstraint(
                fields=["conversation", "client_id"], name="a_message_once"
            ),
        ]

    def __str__(self) -> str:
        return f"Entry {self.seq} ({self.kind})"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise ImmutableEntry(
                f"Entry {self.seq} is stored and cannot be changed; append a new one."
            )
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImmutableEntry(
            f"Entry {self.seq} cannot be deleted; redact its body instead."
        )


class EntryBody(models.Model):
    """The canonical JSON text of an entry; NULL once a redaction shredded it."""

    entry = models.OneToOneField(
        Entry, primary_key=True, on_delete=models.PROTECT, related_name="stored"
    )
    text = models.TextField(null=True)
    nonce = models.CharField(max_length=32, null=True)

    objects = AppendOnly.as_manager()

    class Meta:
        base_manager_name = "objects"

    def __str__(self) -> str:
        return f"Body of entry {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise ImmutableEntry("A stored body cannot be changed; redact it instead.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImmutableEntry("A stored body cannot be deleted; redact it instead.")


class HeadSignature(models.Model):
    """A signed head: shows that a chain was not re-hashed after the fact."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="head_signatures"
    )
    seq = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)
    signature = models.CharField(max_length=128, help_text="Ed25519, hexadecimal.")
    created_at = models.DateTimeField(default=timezone.now)

    objects = AppendOnly.as_manager()

    class Meta:
        base_manager_name = "objects"
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "seq"], name="one_signature_per_head"
            )
        ]

    def __str__(self) -> str:
        return f"Signature of {self.conversation_id} at {self.seq}"


class Blob(models.Model):
    """Bytes kept by their digest, per workspace; the file lies under var/blobs."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="blobs"
    )
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    mime = models.CharField(max_length=100, default="application/octet-stream")
    created_at = models.DateTimeField(default=timezone.now)
    shredded_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "sha256"], name="one_blob_per_content"
            )
        ]

    def __str__(self) -> str:
        return f"Blob {self.sha256[:12]} ({self.size} bytes)"


class MessageText(models.Model):
    """What a message says, for the search; made from its entry and shredded with it."""

    entry = models.OneToOneField(
        Entry, primary_key=True, on_delete=models.PROTECT, related_name="searched"
    )
    text = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"Text of entry {self.pk}"


class Attachment(models.Model):
    """A file of a conversation: put in by a person (`author`), or brought by a tool.

    Its bytes lie in the blob store. Until a message names it, only its author sees it.
    """

    class Kind(models.TextChoices):
        IMAGE = "image", "Image"
        TEXT = "text", "Text"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="attachments"
    )
    author = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    kind = models.CharField(max_length=5, choices=Kind.choices)
    name = models.CharField(max_length=120)
    mime = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    width = models.PositiveIntegerField(default=0, help_text="Pixels, of an image.")
    height = models.PositiveIntegerField(default=0)
    characters = models.PositiveIntegerField(default=0, help_text="Of a text.")
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["conversation", "sha256"])]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        slug = self.conversation.workspace.slug
        return reverse(
            "workspace:attachment", args=[slug, self.conversation_id, self.sha256]
        )


class Change(models.Model):
    """Who changed what, when, from what to what: the audit log. Never rewritten."""

    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.PROTECT, related_name="changes"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="changes"
    )
    action = models.CharField(max_length=60, help_text="Such as member.role.")
    subject = models.CharField(max_length=300, blank=True)
    old = models.JSONField(null=True)
    new = models.JSONField(null=True)
    by = models.ForeignKey(
        User,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Empty: the server's operator, by a command.",
    )
    at = models.DateTimeField(default=timezone.now)

    objects = AppendOnly.as_manager()

    class Meta:
        base_manager_name = "objects"
        indexes = [models.Index(fields=["workspace", "-id"])]

    def __str__(self) -> str:
        return f"{self.action} of {self.subject}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise ImmutableEntry("The audit log is not rewritten; record a new change.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImmutableEntry("The audit log is not rewritten; nothing is deleted.")
