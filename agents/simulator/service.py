"""What the simulator decides about a request, before anything is sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agents.providers.sse import parse_json
from agents.simulator.cache import MINIMUM, PrefixCache, tokens
from agents.simulator.conversation import (
    Api,
    BadRequest,
    Conversation,
    cacheable,
    read,
)
from agents.simulator.faults import NAMES, REFUSALS, Refusal, Tries, altered
from agents.simulator.recorder import Recorder
from agents.simulator.replies import ChatReply, Counts, MessagesReply, Reply
from agents.simulator.scripts import scripted_step
from agents.simulator.steps import BadStep, Delays, Step
from agents.simulator.tour import tour_step

MODEL = "simulator"
WINDOW = 270_000  # tokens
MAX_OUTPUT = 20_000  # tokens
# Dollars per million tokens; nobody pays them, they make costs visible.
PRICES = {"input": 1.25, "cache_read": 0.125, "cache_write": 1.25, "output": 10.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes back: a refusal, or a step as `reply` says it."""

    reply: Reply
    refusal: Refusal | None = None
    conversation: Conversation | None = None
    step: Step = Step()
    counts: Counts = Counts(0, 0, 0, 0, 0)
    delays: Delays = Delays()


@dataclass(slots=True)
class Simulator:
    """The state of one process: prefix cache, shown faults, recorded requests."""

    delays: Delays = Delays()
    clock: Callable[[], float] = time.monotonic
    cache: PrefixCache = field(default_factory=PrefixCache)
    tries: Tries = field(default_factory=Tries)
    recorder: Recorder = field(default_factory=Recorder)

    def plan(self, api: Api, key: str, raw: bytes) -> Plan:
        """Read, choose the step, count its tokens. Never raises for a bad request."""
        reply: Reply = (ChatReply if api == "chat" else MessagesReply)(MODEL)
        if not key:
            return Plan(reply, REFUSALS["unauthorized"])
        try:
            body = parse_json(raw)
            conversation = read(api, body)
            data = cacheable(body)
            step = self._choose(key, conversation)
        except (BadRequest, BadStep, ValueError, KeyError) as error:
            return Plan(reply, _invalid(str(error)))
        if step.fault in REFUSALS:
            return Plan(reply, REFUSALS[step.fault])
        if tokens(data) > WINDOW:
            return Plan(reply, REFUSALS["overflow"])
        counts = self._count(key, conversation, data, step)
        delays = step.delays or self.delays
        return Plan(reply, None, conversation, step, counts, delays)

    def _choose(self, key: str, conversation: Conversation) -> Step:
        step = scripted_step(conversation) or tour_step(conversation)
        fault = step.fault or self.tries.wanted(key, conversation)
        if fault and fault not in NAMES:
            raise BadStep(f"Unknown fault {fault!r}; known are {sorted(NAMES)}.")
        return altered(replace(step, fault=fault), conversation)

    def _count(
        self, key: str, conversation: Conversation, data: bytes, step: Step
    ) -> Counts:
        total = tokens(data)
        cached = self.cache.hit(key, conversation.model, data, self.clock())
        cached = min(cached, total)
        written = 0
        if conversation.api == "messages":  # this API caches only what is marked
            cached = cached if conversation.marked else 0
            is_kept = conversation.marked and total >= MINIMUM
            written = total - cached if is_kept else 0
        spoken = step.tokens or tokens(step.text.encode())
        spoken += sum(tokens(call.arguments.encode()) + 8 for call in step.calls)
        counted = {
            "input": total - cached - written,
            "cache_read": cached,
            "cache_write": written,
            "output": max(1, spoken),
            "reasoning": tokens(step.reasoning.encode()),
        }
        known = {k: v for k, v in step.usage.items() if k in counted}
        return Counts(**counted | known)


def _invalid(message: str) -> Refusal:
    return Refusal(400, "invalid_request", "invalid_request_error", message)


def models() -> dict[str, Any]:
    """The list of models, with limits and prices the way gateways give them."""
    model = {
        "id": MODEL,
        "object": "model",
        "created": 0,
        "owned_by": "tallyroom",
        "context_window": WINDOW,
        "max_output_tokens": MAX_OUTPUT,
        "pricing": PRICES,
    }
    return {"object": "list", "data": [model]}
