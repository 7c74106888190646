"""The account of a request, case by case: what moves a row, and what must not."""

from __future__ import annotations

from typing import Any

import pytest

from agents.actions import start_conversation
from agents.config_actions import save_settings
from agents.context.preview import Preview, preview
from agents.context.report import Counted, Report, make_report
from agents.providers.base import Usage
from agents.providers.scripted import calls, says
from agents.seeding import seed_workspace
from tests.agents.servers import serve, tools
from workspace.models import Conversation

pytestmark = pytest.mark.django_db

WORDS = "Mind the tide before you cast off. " * 57


def rows(report: Report) -> dict[str, int]:
    return {row.key: row.tokens for row in report.rows}


def of_new(workspace: Any, owner: Any) -> Preview:
    made = start_conversation(workspace=workspace, author=owner)
    return preview(made, seed_workspace(workspace))


def of(stage: Any) -> Preview:
    fresh = Conversation.objects.get(pk=stage.conversation.pk)
    return preview(fresh, seed_workspace(fresh.workspace))


@pytest.mark.parametrize("cached", [0, 8_000])
def test_ctx_1_cached_tokens_are_a_note_and_move_no_row(cached):
    segments = [
        Counted("system", "base", "", 6_000),
        Counted("message", "entry:3", "", 3_000),
    ]
    report = make_report(segments, cap=270_000, reserved=0, reported=10_000)
    noted = make_report(
        segments, cap=270_000, reserved=0, reported=10_000, cached=cached
    )
    assert rows(noted) == rows(report)
    assert sum(rows(noted).values()) == 10_000
    assert noted.cached == cached


@pytest.mark.parametrize("reported", [1, 2_999, 8_999])
def test_ctx_2_a_smaller_total_leaves_nothing_unattributed(reported):
    segments = [
        Counted("system", "base", "", 6_000),
        Counted("message", "entry:3", "", 3_000),
    ]
    found = rows(make_report(segments, cap=270_000, reserved=0, reported=reported))
    assert sum(found.values()) == reported
    assert "unattributed" not in found
    assert abs(found["systemPrompt"] - 2 * found["messages"]) <= 2


def test_ctx_3_what_a_server_says_of_itself_is_counted_in_the_startup_context(
    workspace, owner
):
    save_settings(by=owner, scope=workspace, values={"tools.indexBudget": 2_000})
    serve(workspace, "hub", tools(3))
    before = of_new(workspace, owner)
    serve(workspace, "hub", tools(3), WORDS)
    after = of_new(workspace, owner)
    moved = {
        key: tokens - rows(before.next)[key]
        for key, tokens in rows(after.next).items()
        if tokens != rows(before.next)[key]
    }
    assert [*moved] == ["startupContext"]
    sizes = [
        sum(one.tokens for one in found.assembled.segments if one.id == "index")
        for found in (before, after)
    ]
    assert moved["startupContext"] == sizes[1] - sizes[0] > 0


def test_ctx_4_the_body_of_a_skill_is_counted_as_skills(
    stage, script, start_turn, workspace, owner
):
    folder = workspace.root / ".tallyroom" / "skills" / "tides"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: tides\ndescription: Of the sea.\n---\n{WORDS}"
    )
    stage.conversation = start_conversation(workspace=workspace, author=owner)
    script(says("Hi."), calls("skill_view", name="tides"), says("Read."))
    start_turn("Hi")
    before = rows(of(stage).next)
    start_turn("Read the skill")
    after = rows(of(stage).next)
    assert after["skills"] - before["skills"] > 400
    assert after["messages"] - before["messages"] < 200


@pytest.mark.parametrize("hidden", [0, 1, 300])
def test_ctx_5_and_6_hidden_tools_cost_their_place_in_the_index_alone(
    workspace, owner, hidden
):
    none = rows(of_new(workspace, owner).next)
    serve(workspace, "hub", tools(hidden))
    found = of_new(workspace, owner)
    for row in found.next.rows:
        assert sum(one.tokens for one in row.details) == row.tokens
    now = rows(found.next)
    assert now.get("mcpTools", 0) == 0
    assert now["builtinTools"] == none["builtinTools"]
    assert (now["startupContext"] > none["startupContext"]) is (hidden > 0)
    of_server = [one for one in found.on_demand if one.group == "mcp:hub"]
    assert len(of_server) == hidden
    assert all(one.load_tokens > one.index_tokens for one in of_server)


def test_ctx_7_without_usage_the_account_is_an_estimate(stage, script, start_turn):
    script(says("Hi.", usage=Usage()))
    start_turn("Hi")
    last = of(stage).last
    assert last
    assert last.estimated
    assert last.total == sum(rows(last).values()) > 0
    assert "unattributed" not in rows(last)


def test_ctx_8_the_window_changes_percentages_and_no_tokens(stage, script, start_turn):
    script(says("Hi."))
    start_turn("Hi")
    model = stage.choice.language_model
    found = []
    for window in (128_000, 1_000_000):
        model.window = window
        model.save(update_fields=["window"])
        save_settings(
            by=stage.author,
            scope=stage.conversation.workspace,
            values={"context.cap": window},
        )
        found.append(of(stage).next)
    small, large = found
    assert rows(small) == rows(large)
    assert small.percent > 7 * large.percent


def test_bob_1_used_reserved_and_available_are_the_window(workspace, owner):
    report = of_new(workspace, owner).next
    assert sum(rows(report).values()) == report.total
    assert report.total + report.reserved + report.available == report.cap
