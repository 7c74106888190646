"""Cache breaks: what was lost, and which recorded act is named for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.actions import retry_turn
from agents.config_actions import save_settings
from agents.context.breaks import (
    BUNDLE,
    TOLERANCE,
    Sent,
    Verdict,
    bundled_rows,
    compared,
    first_difference,
    judge,
)
from agents.context.view import Item
from agents.models import Agent, ModelCall
from agents.providers.base import Completion, Usage
from agents.providers.scripted import ScriptedProvider, calls, says
from agents.simulator.cache import PrefixCache, tokens
from observability.models import Record

NOW = timezone.now()
ROWS = (
    ("tools", "tool:a", "1", 900),
    ("system", "base", "2", 600),
    ("message", "entry:3", "3", 1_500),
)


def sent(rows: Any = ROWS, *, read: int | None = None, **more: Any) -> Sent:
    size = sum(row[3] for row in rows)
    values: dict[str, Any] = {
        "endpoint": "Harbour",
        "model": "small",
        "mode": "chat",
        "effort": "",
        "at": NOW,
        "seen_seq": 3,
        "rows": tuple(rows),
        "input": size,
        "cache_read": size if read is None else read,
    }
    return Sent(**(values | more))


def later(*more: Any, read: int | None = None, **changed: Any) -> Sent:
    """The next request: it begins with the whole of `sent()`."""
    return sent((*ROWS, *more), read=read, **({"seen_seq": 5} | changed))


NEW = ("message", "entry:5", "5", 200)


def cause(verdict: Verdict) -> str:
    assert verdict.is_break
    assert verdict.change
    return verdict.change.cause


def test_the_first_request_expects_nothing():
    assert judge(None, sent(read=0), []) == Verdict(0)


def test_a_request_that_continues_and_is_read_from_the_cache_is_no_break():
    assert judge(sent(), later(NEW, read=2_900), []) == Verdict(3_000)


def test_losing_no_more_than_a_block_is_no_break():
    assert not judge(sent(), later(NEW, read=3_000 - TOLERANCE), []).is_break
    assert judge(sent(), later(NEW, read=2_999 - TOLERANCE), []).is_break


@pytest.mark.parametrize(
    ("seconds", "named"), [(60, "evicted"), (299, "evicted"), (301, "expired")]
)
def test_the_service_is_named_when_nothing_changed(seconds, named):
    after = later(NEW, read=0, at=NOW + timedelta(seconds=seconds))
    verdict = judge(sent(), after, [])
    assert (cause(verdict), verdict.lost) == (named, 3_000)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "large"}, "model"),
        ({"endpoint": "Quay"}, "endpoint"),
        ({"effort": "high"}, "effort"),
    ],
)
def test_another_model_endpoint_or_effort_is_named(changed, named):
    assert cause(judge(sent(), later(NEW, read=0, **changed), [])) == named
    assert judge(sent(), later(NEW, **changed), []).change.cause == named


OTHER_TOOLS = (("tools", "tool:b", "9", 900), *ROWS[1:], NEW)
OTHER_WORDS = (*ROWS[:2], ("message", "entry:3", "8", 40), NEW)


@pytest.mark.parametrize(
    ("rows", "item", "named"),
    [
        (OTHER_TOOLS, Item(4, "notice", {"type": "declared", "cause": "load"}), "load"),
        (OTHER_TOOLS, Item(4, "surface", {"cause": "policy"}), "policy change"),
        (OTHER_TOOLS, Item(4, "surface", {"tools": []}), "restart"),
        (OTHER_TOOLS, Item(4, "user", {"text": "Hi"}), "nondeterminism"),
        (OTHER_WORDS, Item(4, "summary", {"type": "summary"}), "compaction"),
        (OTHER_WORDS, Item(4, "notice", {"type": "prune"}), "prune step"),
        (OTHER_WORDS, Item(4, "notice", {"type": "rewind"}), "rewind"),
        (OTHER_WORDS, Item(4, "redaction", {"entries": [3]}), "erased"),
        (OTHER_WORDS, Item(4, "user", {"text": "Hi"}), "nondeterminism"),
        # What happened before the previous request explains nothing.
        (OTHER_WORDS, Item(2, "notice", {"type": "prune"}), "nondeterminism"),
    ],
)
def test_the_recorded_act_is_named(rows, item, named):
    kept = 0 if rows is OTHER_TOOLS else 1_400
    verdict = judge(sent(), sent(rows, read=kept, seen_seq=5), [item])
    assert cause(verdict) == named
    assert verdict.change.segment == ("tool:b" if rows is OTHER_TOOLS else "entry:3")


def test_a_mode_goes_before_the_surface_that_it_brought():
    after = sent(OTHER_TOOLS, read=0, mode="plan", seen_seq=5)
    acts = [Item(4, "surface", {"cause": "mode"})]
    assert cause(judge(sent(), after, acts)) == "mode"


def test_the_service_is_named_when_it_dropped_even_what_is_unchanged():
    rows = (*ROWS, ("message", "entry:4", "4", 9_000))
    changed = (*ROWS, ("message", "entry:4", "7", 10), NEW)
    acts = [Item(5, "notice", {"type": "prune"})]
    after = sent(changed, read=0, seen_seq=6, at=NOW + timedelta(minutes=9))
    assert cause(judge(sent(rows, seen_seq=4), after, acts)) == "expired"


@pytest.mark.parametrize("missing", ["input", "cache_read"])
def test_without_figures_nobody_can_tell(missing):
    assert judge(sent(), replace(later(NEW, read=0), **{missing: None}), []) == Verdict(
        None
    )
    assert judge(sent(input=None), later(NEW, read=0), []).expected is None


@given(
    st.lists(st.integers(1, 4_000), max_size=8),
    st.lists(st.integers(1, 4_000), max_size=8),
    st.integers(0, 40_000),
    st.lists(st.sampled_from(["prune", "rewind", "declared", "steer"]), max_size=3),
)
def test_a_loss_is_never_more_than_was_sent_and_always_has_a_cause(
    old, new, read, kinds
):
    before = sent(
        [("message", f"e:{n}", f"{size}", size) for n, size in enumerate(old)]
    )
    after = sent(
        [("message", f"e:{n}", f"{size}", size) for n, size in enumerate(new)],
        read=min(read, sum(new)),
        seen_seq=9,
    )
    items = [Item(4 + n, "notice", {"type": kind}) for n, kind in enumerate(kinds)]
    verdict = judge(before, after, items)
    assert 0 <= verdict.lost <= min(sum(old), sum(new))
    assert not verdict.is_break or (verdict.change and verdict.change.cause)


def messages(count: int, changed: int = -1) -> list[Any]:
    return [
        ("message", f"entry:{n}", "other" if n == changed else f"{n}", 100)
        for n in range(count)
    ]


@given(st.integers(0, 300), st.integers(0, 80), st.integers(-1, 299))
def test_bundles_compare_as_the_messages_that_they_stand_for(old, more, changed):
    stored = compared(bundled_rows(messages(old)))
    found = first_difference(stored, compared(messages(old + more, changed)))
    assert (found is None) == (not 0 <= changed < old)
    if found:
        place = int(found[1].split(":")[1])
        assert place <= changed < place + BUNDLE


def test_what_is_stored_of_a_call_does_not_grow_with_the_conversation():
    rows = [*ROWS[:2], *messages(5_000), ("envelope", "envelope", "x", 7)]
    stored = bundled_rows(rows)
    assert len(stored) < 150
    assert sum(row[3] for row in stored) == sum(row[3] for row in rows)


# On the real path: a service that keeps prefixes as the simulator does.


class Caching(ScriptedProvider):
    """Reports what its prefix cache held of each request."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)
        self.cache = PrefixCache()
        self.now = 0.0

    def stream(self, request: Any, interrupt: Any) -> Iterator[Any]:
        size = tokens(request.body)
        read = self.cache.hit("key", "model", request.body, self.now)
        usage = Usage(input=size - read, cache_read=read, output=5, reported=True)
        for item in super().stream(request, interrupt):
            yield replace(item, usage=usage) if isinstance(item, Completion) else item


@pytest.fixture
def caching(stage: Any, workspace: Any) -> Any:
    (workspace.root / "AGENTS.md").write_text("Keep the harbour tidy. " * 400)

    def plan(*steps: Any) -> Caching:
        stage.provider = Caching(*steps)
        return stage.provider

    return plan


def breaks() -> list[dict[str, Any]]:
    found = ModelCall.objects.exclude(cache_break=None).order_by("pk")
    return [call.cache_break for call in found]


def test_an_ordinary_conversation_breaks_nothing(caching, stage, workspace):
    (workspace.root / "a.txt").write_text("word " * 3_000)
    caching(
        calls("read_file", path="a.txt"),
        calls("tool_search", query="git history"),
        says("One."),
        calls("list_dir", path="."),
        says("Two."),
    )
    for text in ("Read", "And list"):
        stage.post(text)
        stage.play()
    assert breaks() == []
    expected = ModelCall.objects.order_by("pk").values_list(
        "prefix_tokens_expected", flat=True
    )
    assert list(expected) == sorted(expected)
    assert expected[0] == 0


def test_a_retry_loses_what_it_goes_back_behind_and_says_so(
    caching, stage, workspace, owner
):
    (workspace.root / "a.txt").write_text("word " * 3_000)
    caching(calls("read_file", path="a.txt"), says("One."), says("Again."))
    stage.post("Read")
    stage.play()
    seq = stage.conversation.entries.get(kind="user").seq
    retry_turn(conversation=stage.conversation, user=owner, to_seq=seq)
    stage.play()
    found = breaks()
    assert [one["cause"] for one in found] in ([], ["rewind"])


def test_a_changed_prefix_is_told_with_its_cause(caching, stage):
    caching(says("One."), says("Two."))
    stage.post("Hello")
    stage.play()
    Agent.objects.update(effort="high")
    stage.post("And now?")
    stage.play()
    told = Record.objects.filter(kind="prefix.changed").latest("pk")
    assert told.data == {"segment": "request", "cause": "effort"}


def test_what_the_service_forgot_is_its_own(caching, stage):
    provider = caching(says("One."), says("Two."), says("Three."))
    for _ in range(2):
        stage.post("Hello")
        stage.play()
    provider.cache = PrefixCache()
    stage.post("Hello")
    stage.play()
    [lost] = breaks()
    assert (lost["cause"], lost["segment"]) == ("evicted", "provider")
    call = ModelCall.objects.latest("pk")
    assert lost["lost_tokens"] == call.prefix_tokens_expected - (call.cache_read or 0)


def test_a_service_that_never_tells_of_its_cache_breaks_nothing(
    script, stage, workspace
):
    (workspace.root / "AGENTS.md").write_text("Keep the harbour tidy. " * 400)
    usage = Usage(input=5_000, output=5, reported=True)
    script(says("One.", usage=usage), says("Two.", usage=usage))
    for _ in range(2):
        stage.post("Hello")
        stage.play()
    assert breaks() == []


def test_pruning_and_compaction_are_the_only_breaks_of_a_long_turn(
    caching, stage, workspace, owner
):
    values = {"agent.pruneBatchRounds": 1, "agent.keepToolRounds": 2}
    save_settings(by=owner, scope=workspace, values=values)
    for number in range(8):
        (workspace.root / f"{number}.txt").write_text(f"{number} " * 4_000)
    caching(
        *(calls("read_file", path=f"{number}.txt") for number in range(8)),
        says("Done."),
    )
    stage.post("Read them all")
    stage.play()
    assert {one["cause"] for one in breaks()} == {"prune step"}
