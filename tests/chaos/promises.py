"""What must hold after every scenario, whatever was killed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from agents.models import ModelCall, Run, ToolCall
from observability.models import Record
from tests.chaos.report import Report
from tests.chaos.world import TAG, World
from workspace import transcript
from workspace.models import Conversation, Entry, Turn


def check_all(world: World, report: Report) -> None:
    """Everything that can be read from the rows, the chain and the simulator."""
    runs = list(Run.objects.all())
    report.check(
        "every run has ended", [str(run) for run in runs if run.state in Run.OPEN]
    )
    report.check("every turn shows its last run's end", list(wrong_turns()))
    report.check(
        "entries have no gap and no duplicate",
        list(broken_entries()),
        f"{Entry.objects.count()} entries",
    )
    report.check(
        "records have no gap and no duplicate",
        list(broken_records()),
        f"{Record.objects.count()} records",
    )
    report.check("every call has one result, in call order", list(unpaired_calls()))
    report.check("no model call is left as sent", list(unsettled_calls()))
    report.check("every request has valid pairs", list(invalid_requests(world)))
    report.check("no stored round was asked again", list(repeated_rounds(world)))
    verified = world.installation.manage("transcript", "verify", "--all")
    wrong = [] if verified.returncode == 0 else [verified.stdout + verified.stderr]
    report.check("transcript verify --all", wrong)


def wrong_turns() -> Iterator[str]:
    for turn in Turn.objects.all():
        last = turn.runs.order_by("created_at").last()
        if last is not None and last.state != turn.state:
            yield f"{turn.pk} shows {turn.state}, its run is {last.state}"


def gaps(numbers: list[int]) -> bool:
    return numbers != list(range(1, len(numbers) + 1))


def broken_entries() -> Iterator[str]:
    for conversation in Conversation.objects.all():
        found = Entry.objects.filter(conversation=conversation).order_by("seq")
        numbers = list(found.values_list("seq", flat=True))
        if gaps(numbers) or conversation.head_seq != len(numbers):
            yield f"{conversation.pk}: head {conversation.head_seq}, {numbers}"


def broken_records() -> Iterator[str]:
    by_run = defaultdict(list)
    for run_id, seq in Record.objects.order_by("seq").values_list("run_id", "seq"):
        by_run[run_id].append(seq)
    for run_id, numbers in by_run.items():
        if gaps(numbers):
            yield f"run {run_id}: {numbers}"


def unpaired_calls() -> Iterator[str]:
    """Per conversation: asked ids and answered ids, read from the entries alone."""
    for conversation in Conversation.objects.all():
        asked: list[str] = []
        answered: list[str] = []
        for entry in transcript.entries(conversation.pk):
            body = transcript.body(entry)
            if entry.kind == Entry.Kind.ASSISTANT:
                asked += [call["call_id"] for call in body["tool_calls"]]
            elif entry.kind == Entry.Kind.TOOL_RESULT:
                answered.append(body["call_id"])
        if asked != answered:
            yield f"{conversation.pk}: asked {asked}, answered {answered}"
    for call in ToolCall.objects.filter(result_entry=None):
        yield f"{call} of run {call.run_id} has no result entry"


def unsettled_calls() -> Iterator[str]:
    for call in ModelCall.objects.filter(state=ModelCall.State.SENT):
        yield f"{call} in round {call.round} of run {call.run_id}"


def invalid_requests(world: World) -> Iterator[str]:
    for one in world.asked():
        if fault := pair_fault(one.messages):
            yield f"request {one.id} for {one.tag!r}: {fault}"


def pair_fault(messages: list[dict[str, Any]]) -> str:
    """What a model API would refuse: calls without results or the reverse."""
    wanted: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not wanted or message["tool_call_id"] != wanted.pop(0):
                return f"an unasked result of {message['tool_call_id']}"
            continue
        if wanted:
            return f"no result for {wanted}"
        if message["role"] == "assistant":
            wanted = [call["id"] for call in message.get("tool_calls") or ()]
    if wanted:
        return f"no result for {wanted}"
    return "nothing to answer" if messages[-1]["role"] == "assistant" else ""


def repeated_rounds(world: World) -> Iterator[str]:
    """Requests that began after the answer of the same round was stored."""
    stored = stored_answers()
    for one in world.asked():
        at = stored.get((one.tag, one.round))
        if one.tag and at is not None and one.at > at:
            yield (
                f"request {one.id} asked round {one.round} of {one.tag!r} again, "
                f"{one.at - at:.3f} s after its answer was stored"
            )


def stored_answers() -> dict[tuple[str, int], float]:
    """When each round's answer was stored, by the tag of the message it answers."""
    found: dict[tuple[str, int], float] = {}
    for conversation in Conversation.objects.all():
        tags: list[tuple[int, str]] = []
        answers: Counter[str] = Counter()
        for entry in transcript.entries(conversation.pk):
            body = transcript.body(entry)
            if entry.kind == Entry.Kind.USER:
                if match := TAG.search(body.get("text", "")):
                    tags.append((entry.seq, match[1]))
            elif entry.kind == Entry.Kind.ASSISTANT:
                # What was said while it was made, it does not answer.
                heard = [tag for seq, tag in tags if seq <= body["seen_seq"]]
                if heard:
                    answers[heard[-1]] += 1
                    key = (heard[-1], answers[heard[-1]])
                    found.setdefault(key, entry.created_at.timestamp())
    return found


def counted(lines: list[str]) -> Counter[str]:
    return Counter(line.strip() for line in lines if line.strip())
