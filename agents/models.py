"""What answers: model services, agents, and the runs in which they work."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workspace.models import Conversation, Entry, Turn, User, Workspace


class Endpoint(models.Model):
    """A configured model API; without a workspace it serves the whole server."""

    class Kind(models.TextChoices):
        CHAT_COMPLETIONS = "chat_completions", "OpenAI-compatible (Chat Completions)"
        ANTHROPIC = "anthropic", "Anthropic (Messages)"
        SIMULATOR = "simulator", "Built-in simulator"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.PROTECT, related_name="endpoints"
    )
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    base_url = models.CharField(max_length=300, blank=True)
    secret = models.TextField(
        blank=True, help_text="The API key, encrypted. Write-only after saving."
    )
    allow_private = models.BooleanField(
        default=False, help_text="Server staff vouch for this private address."
    )
    caches_prompts = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class LanguageModel(models.Model):
    """A model that an endpoint offers, with its limits (tokens) and prices."""

    class Vision(models.TextChoices):
        YES = "yes", "Yes"
        NO = "no", "No"
        UNKNOWN = "unknown", "Unknown"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, related_name="language_models"
    )
    name = models.CharField(max_length=160)
    window = models.PositiveIntegerField(default=128_000)
    max_output = models.PositiveIntegerField(default=16_000)
    vision = models.CharField(
        max_length=7, choices=Vision.choices, default=Vision.UNKNOWN
    )
    encoding = models.CharField(max_length=20, default="o200k_base")
    price_input = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_cache_read = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_cache_write = models.DecimalField(
        max_digits=12, decimal_places=6, null=True, blank=True
    )
    price_output = models.DecimalField(
        max_digits=12,
        decimal_places=6,
        null=True,
        blank=True,
        help_text="Prices are US dollars per million tokens; empty means unknown.",
    )
    is_default = models.BooleanField(default=False)
    calibration = models.FloatField(
        default=1.0,
        editable=False,
        help_text="Tokens that the service reports for each that we count.",
    )
    calibrated_calls = models.PositiveIntegerField(
        default=0, editable=False, help_text="Calls that it was learned from."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "name"], name="a_model_once_per_endpoint"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Agent(models.Model):
    """A definition of who answers: persona, model, effort, limits."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="agents"
    )
    name = models.SlugField(max_length=60)
    title = models.CharField(max_length=80)
    description = models.CharField(max_length=300, blank=True)
    persona = models.TextField(blank=True)
    language_model = models.ForeignKey(
        LanguageModel,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        help_text="Empty: the workspace's or the server's default model.",
    )
    effort = models.CharField(max_length=10, blank=True)
    max_rounds = models.PositiveIntegerField(default=500)
    max_seconds = models.PositiveIntegerField(default=6 * 3600)
    max_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    read_only = models.BooleanField(
        default=False, help_text="As a child it reads: it changes nothing."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="an_agent_once_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return self.title


class WorkspaceSkill(models.Model):
    """A skill that an admin wrote in the settings. `paths` and tools are lists of text."""

    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="skills"
    )
    name = models.CharField(max_length=64)
    description = models.CharField(max_length=1000)
    when_to_use = models.CharField(max_length=500, blank=True)
    paths = models.JSONField(default=list, blank=True)
    allowed_tools = models.JSONField(default=list, blank=True)
    body = models.TextField()
    updated_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="a_skill_once_per_workspace"
            )
        ]

    def __str__(self) -> str:
        return self.name


class SeenInstruction(models.Model):
    """A rules file or SKILL.md as a member last looked at it.

    A file whose digest is another one now was changed by a tool, or from outside. The
    row without a path says that the workspace was looked through for the first time:
    what there was then counts as known.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="seen_instructions"
    )
    path = models.CharField(max_length=1000, blank=True)
    digest = models.CharField(max_length=64)
    text = models.TextField(blank=True)
    seen_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "path"], name="an_instruction_seen_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.path} as of {self.seen_at}"


class Run(models.Model):
    """One attempt at a turn; what the log viewer lists.

    `fence` grows with every claim and every change of hands: a worker whose fence is
    old can no longer write. The lease only decides who may claim.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting"
        FINISHED = "finished", "Finished"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    OPEN = (State.QUEUED, State.RUNNING, State.WAITING)
    ENDED = (State.FINISHED, State.FAILED, State.STOPPED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    turn = models.ForeignKey(Turn, on_delete=models.PROTECT, related_name="runs")
    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="runs"
    )
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="runs"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    trigger = models.CharField(max_length=20, default="message")
    started_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    since_seq = models.PositiveBigIntegerField(
        default=0, help_text="The transcript's head when it began: later ones are its."
    )
    fence = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField(null=True)
    rung_at = models.DateTimeField(null=True)
    rings = models.PositiveIntegerField(default=0)
    round = models.PositiveIntegerField(default=0)
    restarts = models.PositiveIntegerField(
        default=0, help_text="Times that a worker was lost in the present round."
    )
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    message = models.TextField(blank=True)
    model_name = models.CharField(max_length=160, blank=True)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_cached = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(state__in=["running", "waiting"]),
                name="one_run_at_work_per_conversation",
            )
        ]
        indexes = [
            models.Index(fields=["state", "lease_until"]),
            models.Index(fields=["agent", "-created_at"]),
            models.Index(fields=["conversation", "created_at"]),
        ]

    def __str__(self) -> str:
        return f"Run {self.pk} ({self.state})"


class ModelCall(models.Model):
    """One request to a model service: written before it is sent, settled after."""

    class State(models.TextChoices):
        SENT = "sent", "Sent"
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"
        LOST = "lost", "Lost"

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="model_calls")
    round = models.PositiveIntegerField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.SENT)
    endpoint_name = models.CharField(max_length=80)
    model_name = models.CharField(max_length=160)
    mode = models.CharField(max_length=40)
    effort = models.CharField(max_length=10, blank=True)
    at = models.DateTimeField(default=timezone.now)
    estimated_tokens = models.PositiveIntegerField(default=0)
    segments = models.JSONField(
        default=list,
        help_text="[kind, id, digest, tokens] of each, in wire order; old messages and "
        "the envelope as one row for many.",
    )
    seen_seq = models.PositiveBigIntegerField(
        default=0, help_text="The transcript's head when the request was made."
    )
    prefix_tokens_expected = models.PositiveIntegerField(
        null=True, help_text="Tokens that the service's cache should have held."
    )
    cache_break = models.JSONField(
        null=True, help_text="segment, cause, lost_tokens, at_byte; null: no break."
    )
    input = models.PositiveIntegerField(null=True)
    cache_read = models.PositiveIntegerField(null=True)
    cache_write = models.PositiveIntegerField(null=True)
    output = models.PositiveIntegerField(null=True)
    reasoning = models.PositiveIntegerField(null=True)
    first_token_ms = models.PositiveIntegerField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    stop_reason = models.CharField(max_length=12, blank=True)
    retries = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    error = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["run", "round"]),
            models.Index(fields=["at"], name="model_call_by_time"),
        ]

    def __str__(self) -> str:
        return f"Model call {self.pk} ({self.model_name})"


class ToolCall(models.Model):
    """One call of an assistant message; its outcome is stored once and never repeated."""

    class State(models.TextChoices):
        ASKED = "asked", "Asked"
        STARTED = "started", "Started"
        ENDED = "ended", "Ended"

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="tool_calls")
    entry = models.ForeignKey(
        Entry,
        on_delete=models.PROTECT,
        related_name="tool_calls",
        help_text="The assistant message that asks for it.",
    )
    round = models.PositiveIntegerField()
    index = models.PositiveIntegerField(help_text="Its place in the message, from 0.")
    call_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    arguments = models.TextField()
    argument_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=7, choices=State.choices, default=State.ASKED)
    decision = models.JSONField(
        null=True, help_text="The permission's answer and the rule that gave it."
    )
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ok = models.BooleanField(null=True)
    outcome = models.JSONField(
        null=True, help_text="output (capped view), output_sha256, error, meta."
    )
    result_entry = models.OneToOneField(
        Entry, null=True, on_delete=models.PROTECT, related_name="answered_call"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entry", "index"], name="one_call_per_place"
            )
        ]
        indexes = [models.Index(fields=["run", "state"])]

    def __str__(self) -> str:
        return f"Call of {self.name} ({self.state})"


class Delegation(models.Model):
    """A task that a call handed to another agent, and the child that does it.

    Its `run` begins when it has a place among its siblings. Tokens and cost stay the
    child's own; `turn` is the turn of people to which they add up.
    """

    class Context(models.TextChoices):
        LEAN = "lean", "Lean"
        FULL = "full", "Full"

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.PROTECT, related_name="delegation"
    )
    conversation = models.OneToOneField(
        Conversation, on_delete=models.PROTECT, related_name="delegation"
    )
    parent_run = models.ForeignKey(
        Run, on_delete=models.PROTECT, related_name="delegations"
    )
    turn = models.ForeignKey(Turn, on_delete=models.PROTECT, related_name="delegations")
    run = models.OneToOneField(
        Run, null=True, on_delete=models.PROTECT, related_name="delegation"
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=200)
    rounds = models.PositiveIntegerField(help_text="Tool rounds that it may take.")
    effort = models.CharField(max_length=10, blank=True)
    context = models.CharField(max_length=4, choices=Context.choices)
    limits = models.JSONField(help_text="agents.surface.limits.Limits as JSON.")
    warnings = models.JSONField(default=list)
    prefix_digest = models.CharField(
        max_length=64, help_text="Of what its requests begin with, and their model."
    )
    background = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    warmed_at = models.DateTimeField(
        null=True, help_text="When the first byte of its first answer came."
    )

    def __str__(self) -> str:
        return f"Delegation of {self.title!r}"


class Wait(models.Model):
    """What a run waits for; answered once, by whoever comes first."""

    class Kind(models.TextChoices):
        QUESTION = "question", "Question"
        APPROVAL = "approval", "Approval"
        PLAN = "plan", "Plan"
        CHILDREN = "children", "Children"
        RETRY = "retry", "Retry"

    class Outcome(models.TextChoices):
        ANSWERED = "answered", "Answered"
        EXPIRED = "expired", "Expired"
        CANCELLED = "cancelled", "Cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="waits")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    tool_call = models.ForeignKey(
        ToolCall, null=True, on_delete=models.PROTECT, related_name="waits"
    )
    argument_hash = models.CharField(max_length=64, blank=True)
    payload = models.JSONField(default=dict)
    opened_at = models.DateTimeField(default=timezone.now)
    deadline = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, blank=True)
    answered_at = models.DateTimeField(null=True)
    answered_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    answer = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["outcome", "deadline"])]
        constraints = [
            models.UniqueConstraint(
                fields=["tool_call", "kind", "argument_hash"],
                name="one_wait_per_call_and_arguments",
            )
        ]

    def __str__(self) -> str:
        return f"Wait {self.pk} ({self.kind})"


class Lease(models.Model):
    """Work that one process at a time does for all of them, such as the beat's."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=100)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} by {self.holder}"


class LoadedTool(models.Model):
    """A deferred tool whose schema a conversation has received, and why."""

    class Cause(models.TextChoices):
        DIRECT = "direct", "Called by its name"
        SEARCH = "search", "Found by a search"
        PRELOAD = "preload", "Preloaded"
        RESUME = "resume", "Called earlier"
        DELEGATION = "delegation", "Given by the parent"

    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="loaded_tools"
    )
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="loaded_tools")
    tool = models.CharField(max_length=200)
    schema_digest = models.CharField(max_length=64)
    cause = models.CharField(max_length=10, choices=Cause.choices)
    query = models.CharField(max_length=500, blank=True)
    round = models.PositiveIntegerField()
    tokens = models.PositiveIntegerField(help_text="What its declaration costs.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "tool"], name="a_tool_is_loaded_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}, loaded by {self.cause}"


class Memory(models.Model):
    """One note that agents keep for later conversations, and where it came from.

    A person's notes are theirs within the workspace. `private`: learned in a private
    conversation, so never told in a shared one.
    """

    class Scope(models.TextChoices):
        USER = "user", _("Person")
        WORKSPACE = "workspace", _("Workspace")
        AGENT = "agent", _("Agent")

    class Source(models.TextChoices):
        PERSON = "person", _("written by hand")
        TOOL = "tool", _("saved by an agent")
        EXTRACTION = "extraction", _("found after a conversation")
        CONSOLIDATION = "consolidation", _("put together at night")

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="memories"
    )
    scope = models.CharField(max_length=9, choices=Scope.choices)
    user = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    text = models.TextField()
    pinned = models.BooleanField(default=False)
    private = models.BooleanField(default=False)
    source = models.CharField(max_length=13, choices=Source.choices)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    turn = models.ForeignKey(
        Turn, null=True, on_delete=models.PROTECT, related_name="memories"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_memory_belongs_to_its_scope",
                condition=Q(scope="user", user__isnull=False, agent=None)
                | Q(scope="agent", agent__isnull=False, user=None)
                | Q(scope="workspace", user=None, agent=None),
            )
        ]
        indexes = [models.Index(fields=["workspace", "scope"])]

    def __str__(self) -> str:
        return f"Memory {self.pk} ({self.scope})"


class MemoryRun(models.Model):
    """One pass of a memory agent: what it was for, what it cost, what came of it.

    Nothing it does has an effect before its end, so a lost one is simply done again.
    """

    class Kind(models.TextChoices):
        EXTRACTION = "extraction", _("after a conversation")
        CONSOLIDATION = "consolidation", _("at night")

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="memory_runs"
    )
    kind = models.CharField(max_length=13, choices=Kind.choices)
    user = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="memory_runs"
    )
    upto_seq = models.PositiveBigIntegerField(
        default=0, help_text="The last entry of the conversation that it looks at."
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    tries = models.PositiveIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    missing = models.JSONField(
        default=dict, help_text="Tools that it had to do without, and why."
    )
    message = models.TextField(blank=True)
    changes = models.PositiveIntegerField(default=0)
    model_name = models.CharField(max_length=160, blank=True)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "upto_seq"],
                condition=Q(kind="extraction"),
                name="an_extraction_once_per_head",
            )
        ]
        indexes = [models.Index(fields=["workspace", "-created_at"])]

    def __str__(self) -> str:
        return f"Memory run {self.pk} ({self.kind}, {self.state})"

    @property
    def is_degraded(self) -> bool:
        return bool(self.missing)


class McpServer(models.Model):
    """A server of tools that a workspace uses, with what it last said it offers.

    What is stored here is enough to make a surface: nothing has to be connected.
    """

    class State(models.TextChoices):
        CONNECTING = "connecting", "Connecting"
        READY = "ready", "Ready"
        FAILED = "failed", "Failed"
        LEFT = "left", "Disconnected"

    class Transport(models.TextChoices):
        STDIO = "stdio", "Program in the sandbox"
        HTTP = "http", "Streamable HTTP"
        SSE = "sse", "HTTP with server-sent events"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, related_name="mcp_servers"
    )
    name = models.CharField(max_length=30)
    transport = models.CharField(
        max_length=5, choices=Transport.choices, default=Transport.STDIO
    )
    command = models.JSONField(default=list, help_text="Program and arguments.")
    url = models.CharField(max_length=500, blank=True)
    secret = models.TextField(
        blank=True,
        help_text="Environment or headers as JSON, encrypted. Write-only after saving.",
    )
    include_tools = models.JSONField(default=list, help_text="None: all of them.")
    exclude_tools = models.JSONField(default=list)
    connect_seconds = models.PositiveIntegerField(default=20)
    call_seconds = models.PositiveIntegerField(default=120)
    network = models.BooleanField(
        default=False, help_text="Whether its program reaches the network."
    )
    tried_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="+"
    )
    trusted = models.BooleanField(
        default=False, help_text="Tools that it calls read-only run without a question."
    )
    state = models.CharField(
        max_length=10, choices=State.choices, default=State.CONNECTING
    )
    reason = models.CharField(max_length=500, blank=True)
    instructions = models.TextField(blank=True)
    tools = models.JSONField(
        default=list, help_text="[{name, description, schema, read_only, idempotent}]"
    )
    digest = models.CharField(
        max_length=64, blank=True, help_text="Of instructions and tools together."
    )
    listed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(deleted_at=None),
                name="a_server_once_per_workspace",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Setting(models.Model):
    """What one layer says about one setting. No row: the layer leaves it unset."""

    class Layer(models.TextChoices):
        SERVER = "server", "Server"
        WORKSPACE = "workspace", "Workspace"
        AGENT = "agent", "Agent"
        CONVERSATION = "conversation", "Conversation"

    layer = models.CharField(max_length=12, choices=Layer.choices)
    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    agent = models.ForeignKey(
        Agent, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.CASCADE, related_name="settings"
    )
    key = models.CharField(max_length=100)
    value = models.JSONField()
    written_against = models.TextField(
        blank=True, help_text="The built-in text that the value was made to replace."
    )
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_setting_belongs_to_its_layer",
                condition=Q(
                    layer="server", workspace=None, agent=None, conversation=None
                )
                | Q(layer="workspace", workspace__isnull=False)
                & Q(agent=None, conversation=None)
                | Q(layer="agent", agent__isnull=False)
                & Q(workspace=None, conversation=None)
                | Q(layer="conversation", conversation__isnull=False)
                & Q(workspace=None, agent=None),
            ),
            models.UniqueConstraint(
                fields=["key"],
                condition=Q(layer="server"),
                name="a_setting_once_per_server",
            ),
            models.UniqueConstraint(
                fields=["workspace", "key"], name="a_setting_once_per_workspace"
            ),
            models.UniqueConstraint(
                fields=["agent", "key"], name="a_setting_once_per_agent"
            ),
            models.UniqueConstraint(
                fields=["conversation", "key"], name="a_setting_once_per_conversation"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} ({self.layer})"


class ModeToolPolicy(models.Model):
    """One block of tools that every request declares: in all modes, or in one.

    A workspace's row replaces the server's for its block. `version` grows with every
    change, so that of two people who edit at once the second is told.
    """

    class Block(models.TextChoices):
        BUILTINS = "resident_builtins", "Built-in tools"
        DISCOVERY = "resident_discovery", "Finding tools"
        MCP = "resident_mcp", "Tools of MCP servers"

    workspace = models.ForeignKey(
        Workspace, null=True, on_delete=models.PROTECT, related_name="tool_policies"
    )
    block = models.CharField(
        max_length=60, help_text="resident_builtins, …_discovery, …_mcp or mode:NAME."
    )
    names = models.JSONField(default=list)
    ceiling = models.CharField(
        max_length=10, blank=True, help_text="Of a mode; empty: what it brings along."
    )
    allowed = models.JSONField(
        null=True, help_text="A mode's allow-list of tools; null: none."
    )
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "mode tool policies"
        constraints = [
            models.UniqueConstraint(
                fields=["block"],
                condition=Q(workspace=None),
                name="a_block_once_on_the_server",
            ),
            models.UniqueConstraint(
                fields=["workspace", "block"], name="a_block_once_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.block} of {self.workspace or 'the server'}"
