"""Handing a task to a child: what it begins with is fixed, then it is stored at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.db import transaction

from agents import runs, sandbox
from agents.batches import Ready
from agents.children import briefing
from agents.children.builtin import target
from agents.children.family import MOST_ROUNDS, effort_of, limits_of
from agents.config.layers import effective
from agents.context.assemble import declaring
from agents.context.startup import (
    canonical,
    mode_in,
    startup_body,
    surface_body,
    surface_of,
)
from agents.context.surroundings import look_around
from agents.endpoints import choose
from agents.errors import ProviderError
from agents.models import Agent, Delegation, ToolCall, Wait
from agents.runs import Hold
from agents.surface.limits import Limits
from agents.tools.delegation import AgentTask, DelegateTask
from agents.tools.registry import Catalogue, catalogue
from workspace import transcript
from workspace.actions import conversations
from workspace.models import Conversation, Entry, Turn
from workspace.transcript import Draft


def begin(hold: Hold, one: Ready) -> None:
    """Make the child of a call, and the wait for it; once per call.

    Its run begins at once if fewer than MOST_AT_ONCE siblings are at work, else when
    one of them ends. Raises ToolError when the task cannot be handed on as it is.
    """
    assert isinstance(one.arguments, DelegateTask), "the only tool that waits for one"
    child = _Child(hold, one, one.arguments)
    drafts = transcript.seal(
        child.conversation.pk, *child.drafts(), workspace_id=hold.run.workspace_id
    )
    with transaction.atomic():
        runs.lock_row(hold.run.conversation_id)
        hold.guard()
        if Delegation.objects.filter(tool_call=one.call).exists():
            return
        child.store(drafts)
        if not child.in_background:
            kind = Wait.Kind.CHILDREN
            runs.open_wait(hold, one.call, kind, child.payload, lasting=True)
        runs.admit(hold.run)


@dataclass(frozen=True)
class _Child:
    """A child that is about to be made; what it reads, it reads once."""

    hold: Hold
    one: Ready
    arguments: DelegateTask

    @cached_property
    def agent(self) -> Agent:
        return target(self.hold.run.conversation.workspace, self.arguments.agent)

    @property
    def in_background(self) -> bool:
        return isinstance(self.arguments, AgentTask) and self.arguments.background

    @property
    def parent(self) -> Conversation:
        return self.hold.run.conversation

    @cached_property
    def conversation(self) -> Conversation:
        """Its conversation, not stored yet; an agent with a model of its own keeps it."""
        parent = self.parent
        return Conversation(
            workspace=parent.workspace,
            title=self.title,
            created_by_id=parent.created_by_id,
            private=parent.private,
            parent=parent,
            top_id=parent.people_id,
            agent_name=self.agent.name,
            model_name="" if self._has_own_model else self.hold.run.model_name,
            mode=mode_in(parent, declaring(self.hold.items)[0]),
            approval_level=parent.approval_level,
        )

    @property
    def _has_own_model(self) -> bool:
        return self.agent.language_model_id is not None

    @property
    def title(self) -> str:
        first = self.arguments.title or self.arguments.task.splitlines()[0]
        title = conversations.plain_title(first)
        return title if len(title) <= 78 else f"{title[:77]}…"

    @property
    def rounds(self) -> int:
        return min(self.arguments.rounds, self.agent.max_rounds, MOST_ROUNDS)

    @cached_property
    def effort(self) -> str:
        return self.agent.effort or effort_of(self.hold.run)

    @cached_property
    def is_full(self) -> bool:
        chosen = effective(self.parent).settings
        return chosen.agents.child_context == "full"

    @cached_property
    def known(self) -> Catalogue:
        return catalogue(self.hold.run.workspace_id)

    @cached_property
    def free(self) -> Limits:
        """Its limits but for a list of its own: never wider than its parent's."""
        above = limits_of(self.parent)
        surface = self.one.bridge.surface
        names = (*surface.denied, *surface.absent)
        return Limits(
            depth=above.depth + 1 if above else 1,
            read_only=self.agent.read_only or bool(above and above.read_only),
            denied={name: surface.reasons[name] for name in names},
            confined=not sandbox.is_off(),
        )

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The tools that the task names, by their real names, as far as they exist."""
        found = [self.known.resolve(name) for name in self.arguments.tools]
        return tuple(dict.fromkeys(tool.name for tool in found if tool))

    @cached_property
    def limits(self) -> Limits:
        return (
            replace(self.free, exact=self.named) if self.arguments.tools else self.free
        )

    @cached_property
    def surface(self) -> dict[str, Any]:
        """Its declared tools and system prompt: in full, byte for byte its parent's."""
        if self.is_full and not self.arguments.tools:
            return merged(declaring(self.hold.items))
        body = surface_body(self.agent, self.conversation, self.limits)
        return body | {"loaded": {**body["loaded"], "delegation": self._given()}}

    def _given(self) -> list[str]:
        """Named tools that are on demand elsewhere: the task loads them."""
        if not self.named:
            return []
        chosen = effective(self.conversation).settings
        usual = surface_of(self.conversation, self.known, chosen, self.free)
        return [name for name in self.named if name in usual.deferred]

    @cached_property
    def startup(self) -> dict[str, Any]:
        if self.is_full:
            return next(
                item.body
                for item in reversed(self.hold.items)
                if item.kind == "startup"
            )
        around = look_around(self.conversation, lean=True)
        return startup_body(self.conversation, around, self.limits)

    @cached_property
    def message(self) -> str:
        given = self.arguments.context
        root, workspace_id = self.parent.root, self.hold.run.workspace_id
        parts = [
            self.notes,
            *briefing.skills(workspace_id, root, given.get("skills", ())),
            *briefing.files(root, given.get("files", ())),
        ]
        unsaid = self.agent if self.is_full else None
        return briefing.brief(self.arguments.task, parts, self.rounds, unsaid)

    @cached_property
    def notes(self) -> str:
        wanted = self.arguments.context.get("memory", ())
        return briefing.notes(self.parent, self.hold.run.turn.author, wanted)

    @cached_property
    def warnings(self) -> list[str]:
        """What the child is not given as it was asked for, or has otherwise."""
        return [*self._missing_tools(), *self._missing_context(), *self._differences()]

    def _missing_tools(self) -> Iterator[str]:
        for name in self.arguments.tools:
            if self.known.resolve(name) is None:
                yield f"{name} is not given: there is no such tool"
        if not self.arguments.tools:
            return
        chosen = effective(self.conversation).settings
        found = surface_of(self.conversation, self.known, chosen, self.limits)
        for name in self.named:
            if name not in found.resident:
                yield f"{name} is not given: {found.reasons[name]}"

    def _missing_context(self) -> Iterator[str]:
        if self.arguments.context.get("memory") and not self.notes:
            yield "context.memory is not given: no note fits"

    def _differences(self) -> Iterator[str]:
        run = self.hold.run
        try:
            model = choose(self.conversation, self.agent).language_model.name
        except ProviderError as error:
            yield error.message
            return
        if model != run.model_name:
            yield (
                f"it works with {model}, its parent with {run.model_name}: they share "
                "no prompt cache"
            )
        effort = effort_of(run)
        if self.effort != effort:
            yield (
                f"its effort is {self.effort or 'the usual'}, its parent's "
                f"{effort or 'the usual'}: they share no prompt cache"
            )

    @property
    def payload(self) -> dict[str, Any]:
        return {"why": self.title, "agent": self.agent.name}

    @property
    def prefix_digest(self) -> str:
        """Equal for children whose first requests begin with the same bytes."""
        parts = [
            self.surface["rendered"],
            canonical(self.surface["system"]),
            self.startup["text"],
            self.conversation.model_name or self.agent.name,
            self.effort,
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()

    def drafts(self) -> list[Draft]:
        return [
            Draft(kind=Entry.Kind.SURFACE, body=self.surface),
            Draft(kind=Entry.Kind.STARTUP, body=self.startup),
            Draft(kind=Entry.Kind.USER, body={"text": self.message, "task": True}),
        ]

    def store(self, sealed: Sequence[transcript.Sealed]) -> None:
        """Inside a transaction: the conversation, its turn, its first entries."""
        run = self.hold.run
        self.conversation.save(force_insert=True)
        turn = Turn.objects.create(
            conversation=self.conversation, author=run.turn.author
        )
        *beginning, task = sealed
        spoken = replace(task, draft=replace(task.draft, turn=turn))
        transcript.append(self.conversation.pk, *beginning, spoken)
        Delegation.objects.create(
            tool_call=self.one.call,
            conversation=self.conversation,
            parent_run=run,
            turn=turn_of_people(self.one.call),
            agent=self.agent,
            title=self.title,
            rounds=self.rounds,
            effort=self.effort,
            context=Delegation.Context.FULL
            if self.is_full
            else Delegation.Context.LEAN,
            limits=self.limits.as_json(),
            warnings=self.warnings,
            prefix_digest=self.prefix_digest,
            background=self.in_background,
        )


def merged(bodies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A surface and its later additions as one surface that declares the same bytes."""
    first, *later = bodies
    if not later:
        return {**first, "loaded": {}}
    inside = [body["rendered"].strip()[1:-1] for body in bodies]
    return {
        **first,
        "tools": [tool for body in bodies for tool in body["tools"]],
        "rendered": f"[{','.join(filter(None, inside))}]",
        "loaded": {},
    }


def turn_of_people(call: ToolCall) -> Turn:
    """The turn in which people see what the call comes to."""
    above = Delegation.objects.filter(run=call.run_id).select_related("turn").first()
    return above.turn if above else call.run.turn
