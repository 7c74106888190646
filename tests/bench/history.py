"""What a long history costs: assembling a round, appending, resuming, the pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from agents.context.assemble import items_of
from agents.context.governance import Maker, foreseen
from agents.context.view import Item
from agents.endpoints import choose
from agents.models import Run
from agents.seeding import seed_workspace
from observability.models import Record
from tests.bench.results import Results
from tests.bench.streams import order
from tests.harness.installation import Installation, wait_until
from tests.harness.people import Person
from workspace import transcript
from workspace.models import Conversation, Entry
from workspace.transcript import Draft


def rounds(installation: Installation, owner: Person) -> Results:
    """In this process: what stands between two rounds of a run."""
    results = Results("rounds")
    for entries, goal in ((100, "<= 10"), (5_000, "<= 25")):
        conversation = long_conversation(owner, entries)
        agent = seed_workspace(owner.workspace)
        choice = choose(conversation, agent)
        maker = Maker.of(conversation, choice, "")

        def resume(one: Conversation = conversation, maker: Maker = maker) -> None:
            foreseen(items_of(one), maker)

        cold = busy(resume, 1)
        items = items_of(conversation)

        def once(known: list[Item] = items, maker: Maker = maker) -> None:
            known.append(Item(known[-1].seq + 1, "user", {"text": "And now?"}))
            foreseen(known, maker)

        label = f"{entries:,} entries"
        once()
        results.add(f"assemble between rounds, {label}", busy(once, 5), "ms CPU", goal)
        cold_goal = "<= 300" if entries == 5_000 else ""
        results.add(f"cold resume, {label}", cold, "ms CPU", cold_goal)
        append = timed(lambda one=conversation: say(one, 1), 20)
        results.add(f"append, {label}", append, "ms")
    return results


def busy(work: Callable[[], Any], times: int) -> float:
    """Median in milliseconds of processor time: the machine may be shared."""
    taken = []
    for _ in range(times):
        begun = time.process_time()
        work()
        taken.append((time.process_time() - begun) * 1000)
    return median(taken)


def timed(work: Callable[[], Any], times: int) -> float:
    """Median in milliseconds."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return median(taken)


def long_conversation(owner: Person, entries: int) -> Conversation:
    conversation = owner.converse(f"{entries} entries")
    for _ in range(entries // 100):
        say(conversation, 50)
    return conversation


def say(conversation: Conversation, pairs: int) -> None:
    drafts = []
    for number in range(pairs):
        text = f"Question {number}: how many boats lie in the harbour today?"
        drafts.append(Draft(kind=Entry.Kind.USER, body={"text": text}))
        body = {
            "text": "Six boats, as far as the harbour's list of this morning says.",
            "reasoning": "",
            "tool_calls": [],
            "stopped": False,
            "round": 1,
            "stop_reason": "end",
        }
        drafts.append(Draft(kind=Entry.Kind.ASSISTANT, body=body))
    transcript.append(conversation.pk, *drafts)


def pages(installation: Installation, owner: Person) -> Results:
    """Server time of the pages that grow, over HTTP."""
    results = Results("pages")
    conversation = long_conversation(owner, 5_000)
    chat = timed(lambda: fetch(owner, owner.path(conversation)), 5)
    results.add("chat of 5,000 entries", chat, "ms", "<= 500")
    conversation = owner.converse("log")
    owner.say(conversation, order(3))
    ended = Run.objects.filter(conversation=conversation, state__in=Run.ENDED)
    run = wait_until(ended.first, 30, "the run ends")
    fill_log(run, 50_000)
    slug = owner.workspace.slug
    log = timed(lambda: fetch(owner, f"/w/{slug}/runs/{run.pk}/"), 5)
    results.add("log of 50,000 events", log, "ms", "<= 300")
    listing = timed(lambda: fetch(owner, f"/w/{slug}/"), 5)
    results.add("list of conversations", listing, "ms")
    return results


def fetch(owner: Person, path: str) -> None:
    owner.client.get(path, headers={"Accept": "text/html"}).raise_for_status()


def fill_log(run: Run, count: int) -> None:
    last = Record.objects.filter(run=run).count()
    Record.objects.bulk_create(
        (
            Record(
                run=run,
                conversation_id=run.conversation_id,
                seq=seq,
                round=seq // 10,
                kind="tool.called",
                text=f"[tool] call {seq}",
                data={"tool": "read_file", "call_id": f"call_{seq}"},
            )
            for seq in range(last + 1, count + 1)
        ),
        batch_size=500,
    )
