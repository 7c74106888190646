"""What is shown before a call is exactly what the call sends."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from agents.actions import retry_turn
from agents.context.assemble import assemble, items_of
from agents.context.report import CATEGORIES, Counted, category_of, make_report
from agents.providers.base import Usage
from agents.providers.scripted import Step, calls, says
from workspace.models import Conversation, Entry

parts = st.lists(
    st.builds(
        Counted,
        st.sampled_from(["envelope", "tools", "system", "startup", "message"]),
        st.sampled_from(["a", "tool:mcp__x__y", "rules:AGENTS.md", "skills", "index"]),
        st.just("title"),
        st.integers(0, 5000),
    ),
    min_size=1,
    max_size=30,
)


@given(parts, st.none() | st.integers(-5, 200_000), st.integers(-5, 300_000))
def test_rows_add_up_to_the_total_whatever_the_service_reports(
    segments, reported, cached
):
    report = make_report(
        segments, cap=1000, reserved=100, reported=reported, cached=cached
    )
    assert sum(row.tokens for row in report.rows) == report.total
    for row in report.rows:
        if row.details:
            assert sum(part.tokens for part in row.details) == row.tokens
    assert 0 <= report.cached <= report.total
    assert all(row.tokens >= 0 for row in report.rows)


def test_a_report_below_our_count_shrinks_every_row_by_one_factor():
    segments = [Counted("system", "base", "", 600), Counted("message", "e", "", 400)]
    report = make_report(segments, cap=10_000, reserved=0, reported=500)
    assert [row.tokens for row in report.rows] == [300, 200]


def test_a_report_above_our_count_leaves_the_rest_unattributed():
    segments = [Counted("system", "base", "", 600)]
    report = make_report(segments, cap=10_000, reserved=0, reported=1000, cached=800)
    assert report.rows[-1].key == "unattributed"
    assert report.rows[-1].tokens == 400
    assert report.cached == 800


@pytest.mark.parametrize(
    ("kind", "key", "row"),
    [
        ("tools", "tool:shell", "builtinTools"),
        ("tools", "tool:mcp__github__list", "mcpTools"),
        ("startup", "rules:AGENTS.md", "rules"),
        ("startup", "index", "startupContext"),
        ("envelope", "envelope", "systemPrompt"),
    ],
)
def test_each_segment_belongs_to_one_row(kind, key, row):
    assert category_of(kind, key) == row
    assert row in CATEGORIES


@pytest.mark.django_db
def test_the_preview_is_what_the_next_call_sends_byte_for_byte(
    script, stage, conversation, owner, workspace
):
    (workspace.root / "a.txt").write_text("안녕 <b>\n" * 30)
    seen: list[bytes] = []

    def look(prompt: Any) -> None:
        fresh = Conversation.objects.get(pk=conversation.pk)
        assembled = assemble(
            items_of(fresh),
            provider=stage.provider,
            language_model=stage.choice.language_model,
        )
        assert b"".join(one.data for one in assembled.segments) == assembled.body
        seen.append(assembled.body)

    def step(planned: Step) -> Any:
        def play(prompt: Any) -> Step:
            look(prompt)
            return planned

        return play

    provider = script(
        step(calls("read_file", path="a.txt")),
        step(calls("tool_search", query="select:list_dir")),
        step(calls("tool_call", name="list_dir", arguments={"path": "."})),
        step(says("Done.")),
        step(says("Again.")),
    )
    stage.post("Look")
    stage.play()
    seq = conversation.entries.filter(kind=Entry.Kind.USER).last().seq
    retry_turn(conversation=conversation, user=owner, to_seq=seq)
    stage.play()
    assert seen == [one.body for one in provider.requests]


@pytest.mark.django_db
def test_the_startup_context_is_cut_into_its_parts(script, stage):
    script(says("Hi."))
    stage.post("Hi")
    stage.play()
    assembled = assemble(
        items_of(stage.conversation),
        provider=stage.provider,
        language_model=stage.choice.language_model,
    )
    ids = [one.id for one in assembled.segments if one.kind == "startup"]
    assert ids == ["environment", "index"]


@pytest.mark.django_db
def test_every_turn_ends_with_a_report_whose_rows_add_up(script, start_turn):
    from observability.models import Record

    script(says("Hi.", usage=Usage(input=100, cache_read=50, output=3, reported=True)))
    start_turn("Hi")
    data = Record.objects.get(kind="context.reported").data
    assert data["total"] == 150 == sum(data["rows"].values())


@pytest.mark.django_db
def test_the_command_shows_the_account_as_text_and_as_json(
    script, start_turn, conversation
):
    script(says("Hi."))
    start_turn("Hi")
    text, data = io.StringIO(), io.StringIO()
    call_command("context", str(conversation.pk), "--detail", stdout=text)
    call_command("context", str(conversation.pk), "--json", stdout=data)
    assert "On demand (index now / if loaded):" in text.getvalue()
    found = json.loads(data.getvalue())
    assert sum(row["tokens"] for row in found["next"]["rows"]) == found["next"]["total"]
    assert found["last"]["total"] == 100


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["nonsense", "6f1c2c1e-0000-4000-8000-000000000000"])
def test_the_command_says_what_is_wrong_with_an_id(text):
    with pytest.raises(CommandError) as refused:
        call_command("context", text)
    assert text in str(refused.value)
