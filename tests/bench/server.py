"""Latency and throughput of the whole path, beside the direct call."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from agents.models import Run
from tests.bench.results import Results, p95
from tests.bench.streams import (
    BETWEEN,
    FIRST,
    TOKENS,
    Answer,
    Page,
    ask_directly,
    order,
)
from tests.harness.installation import Installation, wait_until
from tests.harness.people import Person


def latency(installation: Installation, owner: Person) -> Results:
    """One person, thirty messages one after another."""
    results = Results("latency")
    direct = [ask_directly(installation, order()) for _ in range(15)]
    page = Page(owner, owner.converse("latency"))
    ours = asyncio.run(one_after_another(page, 30))
    results.spread("direct, first token added", [added(one) for one in direct])
    results.spread("ours, first token added", [added(one) for one in ours], "30 / 45")
    results.add("refused", sum(one.status != 200 for one in ours), "", "0")
    return results


def added(answer: Answer) -> float:
    return answer.first - answer.posted - FIRST


async def one_after_another(page: Page, count: int) -> list[Answer]:
    await page.open()
    answers = [await page.ask(order()) for _ in range(count + 2)]
    page.close()
    return answers[2:]  # the first ones warm up


def twenty(installation: Installation, owner: Person) -> Results:
    """Twenty streams at once."""
    results = Results("twenty")
    with ThreadPoolExecutor(20) as pool:
        begun = time.time()
        list(pool.map(lambda _: ask_directly(installation, order()), range(20)))
        results.add("direct", 20 * TOKENS / (time.time() - begun), "tokens/s")
    sets = [pages_of(owner, 20) for _ in range(3)]
    before = cpu_seconds(installation)
    rounds = [asyncio.run(at_once(pages)) for pages in sets]
    used = cpu_seconds(installation) - before
    answers = [one for answers in rounds for one in answers]
    speeds = [speed_of(one) for one in rounds]
    results.add("ours, best of three", max(speeds), "tokens/s", ">= 3000")
    results.add("ours, median of three", sorted(speeds)[1], "tokens/s")
    results.add("refused", sum(one.status != 200 for one in answers), "", "0")
    firsts = [one.first - one.posted for one in answers]
    results.add("first token p95", p95(firsts) * 1000, "ms", "<= 300")
    tokens = sum(one.text.count(" ") for one in answers)
    results.add("tokens delivered", tokens, "", str(60 * TOKENS))
    results.add("CPU per 12,000 tokens", used * 12_000 / tokens, "s", "<= 4")
    return results


def speed_of(answers: list[Answer]) -> float:
    begun = min(one.posted for one in answers)
    ended = max(one.last for one in answers)
    return sum(one.text.count(" ") for one in answers) / (ended - begun)


def pages_of(owner: Person, count: int) -> list[Page]:
    return [Page(owner, owner.converse(f"at once {n}")) for n in range(count)]


async def at_once(
    pages: list[Page], tokens: int = TOKENS, between: float = BETWEEN
) -> list[Answer]:
    await asyncio.gather(*(page.open() for page in pages))
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(len(pages)))
    answers = await asyncio.gather(
        *(
            page.ask(order(tokens, between, tag=f"load-{n}"), 180)
            for n, page in enumerate(pages)
        )
    )
    for page in pages:
        page.close()
    return answers


def crowd(installation: Installation, owner: Person) -> Results:
    """Sixty slow streams at once: how late deltas arrive, and what it takes."""
    results = Results("crowd")
    count, tokens, between = 60, 200, 0.05
    since = installation.asked()[-1]["id"] if installation.asked() else 0
    answers = asyncio.run(at_once(pages_of(owner, count), tokens, between))
    began = {
        one["body"].split("tag:load-", 1)[1].split(";", 1)[0]: one["at"]
        for one in installation.asked(since)
        if "tag:load-" in one["body"]
    }
    late = [
        at - (began[str(number)] + FIRST + index * between)
        for number, answer in enumerate(answers)
        for index, at in answer.arrivals
    ]
    results.add("streams at once, 20 tokens/s each", count)
    results.spread("delay of a delta", late, "p95 <= 300")
    whole = sum(one.text.count(" ") == tokens for one in answers)
    results.add("streams delivered whole", whole, "", str(count))
    results.add("memory after it", memory(installation), "MB", "<= 600")
    return results


def idle(installation: Installation, owner: Person) -> Results:
    """What a fresh start takes, and what it holds without work."""
    results = Results("idle")
    results.add("start", installation.started_in, "s", "<= 8")
    time.sleep(2)
    results.add("memory, all processes", memory(installation), "MB", "<= 450")
    before = cpu_seconds(installation)
    time.sleep(5)
    used = (cpu_seconds(installation) - before) / 5
    results.add("CPU of one core while idle", used * 100, "%")
    return results


def memory(installation: Installation) -> float:
    """Proportional set size of the whole family, in MB."""
    return sum(one.memory_full_info().pss for one in installation.family()) / 1e6


def cpu_seconds(installation: Installation) -> float:
    times = [one.cpu_times() for one in installation.family()]
    return sum(one.user + one.system for one in times)


def stops(installation: Installation, owner: Person) -> Results:
    """From the click to the stored end, in the middle of a stream."""
    results = Results("stops")
    conversation = owner.converse("stops")
    took = []
    for _ in range(20):
        owner.say(conversation, order(400, 0.05))
        runs = Run.objects.filter(conversation=conversation)
        wait_until(lambda: runs.filter(state="running"), 20, "it runs")  # noqa: B023
        time.sleep(0.2)
        begun = time.monotonic()
        owner.stop(conversation)
        busy = runs.filter(state__in=Run.OPEN)
        wait_until(lambda: not busy.exists(), 20, "it stops", 0.003)  # noqa: B023
        took.append(time.monotonic() - begun)
    results.spread("stop of a stream", took, "500 in 20 of 20")
    results.add("slowest", max(took) * 1000, "ms")
    return results
