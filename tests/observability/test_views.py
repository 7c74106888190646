"""Pages of the run log: who may read, what is shown, what stays inert."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents import events
from agents.models import Run
from observability.models import Record
from tests.observability.conftest import a_round, tell

HOSTILE = (
    "<script>alert(1)</script><svg onload=alert(2)>"
    '"><a href="javascript:alert(3)">x</a>\x1b[2J\u202egpj.exe\u2066'
)


def addresses(run: Run) -> list[str]:
    at = ["harbour", run.pk]
    return [
        reverse("observability:run", args=at),
        reverse("observability:run_records", args=at),
        reverse("observability:run_ndjson", args=at),
    ]


def logs_address() -> str:
    return reverse("observability:logs", args=["harbour", "assistant"])


@pytest.mark.parametrize("name", ["ola", "mina", "vera"])
def test_members_and_viewers_read_runs_and_their_logs(as_person, run, name):
    a_round(run, 1)
    client = as_person(name)
    for address in [*addresses(run), logs_address(), reverse("observability:home")]:
        assert client.get(address).status_code == 200, address
    assert str(run.pk) in client.get(logs_address()).content.decode()


def test_an_outsider_learns_of_nothing(as_person, run):
    client = as_person("otto")
    for address in [*addresses(run), logs_address()]:
        assert client.get(address).status_code == 404, address
    home = client.get(reverse("observability:home")).content.decode()
    assert str(run.pk) not in home


def test_a_stranger_is_asked_to_sign_in(client, run):
    for address in [*addresses(run), logs_address(), reverse("observability:home")]:
        answer = client.get(address)
        assert answer.status_code == 302
        assert "/accounts/login/" in answer["Location"]


def test_a_private_conversations_runs_are_its_own_peoples(as_person, make_run):
    run = make_run(private=True, author="mina")
    a_round(run, 1)
    client = as_person("ola")
    for address in addresses(run):
        assert client.get(address).status_code == 404, address
    for address in (logs_address(), reverse("observability:home")):
        assert str(run.pk) not in client.get(address).content.decode()
    run.conversation.invited.add(run.workspace.memberships.get(role="owner").user)
    assert client.get(addresses(run)[0]).status_code == 200


def test_a_run_is_not_found_under_another_workspaces_address(as_person, run):
    address = reverse("observability:run", args=["elsewhere", run.pk])
    assert as_person("mina").get(address).status_code == 404


def test_pages_refuse_to_be_posted_to(as_person, run):
    client = as_person("ola")
    for address in [*addresses(run), logs_address(), reverse("observability:home")]:
        assert client.post(address).status_code == 405


def test_an_agent_without_runs_and_an_unknown_one(as_person, place):
    client = as_person("vera")
    assert "read README.md" in client.get(logs_address()).content.decode()
    unknown = reverse("observability:logs", args=["harbour", "nobody"])
    assert client.get(unknown).status_code == 404


def test_runs_are_filtered_by_state_and_paged(as_person, make_run, monkeypatch):
    monkeypatch.setattr("observability.queries.RUNS", 3)
    now = timezone.now()
    runs = [
        make_run(
            state="failed" if number % 2 else "finished",
            created_at=now - timedelta(minutes=number // 2),
        )
        for number in range(7)
    ]
    client = as_person("mina")
    seen, address = [], logs_address() + "?state=finished"
    while address:
        answer = client.get(address)
        seen += [figures.id for figures in answer.context["runs"]]
        older = answer.context["older"]
        address = logs_address() + older if older else ""
    assert seen == [run.pk for run in runs if run.state == "finished"]
    everything = client.get(logs_address() + "?before=rubbish&state=nonsense")
    assert len(everything.context["runs"]) == 3


def test_the_list_costs_as_many_queries_for_forty_runs_as_for_one(as_person, make_run):
    client = as_person("mina")

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(logs_address()).status_code == 200
        return len(queries)

    a_round(make_run(), 1)
    first = cost()
    for _ in range(39):
        a_round(make_run(), 1)
    assert cost() == first <= 14


def test_a_runs_page_costs_as_many_queries_for_many_events_as_for_few(as_person, run):
    client = as_person("mina")

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(addresses(run)[0]).status_code == 200
        return len(queries)

    a_round(run, 1)
    first = cost()
    for number in range(2, 40):
        a_round(run, number)
    assert cost() == first <= 16


def test_events_stand_under_their_round_each_with_a_link_to_itself(as_person, run):
    a_round(run, 1)
    a_round(run, 2)
    page = as_person("mina").get(addresses(run)[0]).content.decode()
    assert page.index("Round 1") < page.index('id="event-6"') < page.index("Round 2")
    assert 'href="?at=7#event-7"' in page
    assert "[tool] read_file ok: 84 characters, 3 ms" in page
    assert 'data-cursor="12"' in page


def test_a_filtered_page_keeps_its_filter_in_every_link(as_person, run):
    for number in range(1, 210):
        a_round(run, number)
    answer = as_person("mina").get(addresses(run)[0] + "?group=tools&q=read_file")
    assert len(answer.context["window"].lines) == 200
    assert answer.context["earlier"] == "?group=tools&q=read_file&before=" + str(
        answer.context["window"].first
    )
    assert answer.context["records_url"].endswith("?group=tools&q=read_file")
    page = answer.content.decode()
    assert 'name="group" value="tools"' in page


def test_a_page_in_the_middle_is_not_live(as_person, run):
    for number in range(1, 80):
        a_round(run, number)
    page = as_person("mina").get(addresses(run)[0] + "?at=100").content.decode()
    assert "data-run-log" not in page
    assert 'id="event-100"' in page


@pytest.mark.parametrize(
    ("state", "ended"), [("running", False), ("finished", True), ("stopped", True)]
)
def test_the_log_of_an_ended_run_says_that_nothing_follows(
    as_person, make_run, state, ended
):
    page = as_person("mina").get(addresses(make_run(state=state))[0]).content.decode()
    assert ("log is complete.</span>" in page) is ended
    assert ("data-ended>" in page) is ended


def test_triggers_and_stored_sentences_are_said_in_korean(as_person, make_run):
    client = as_person("mina")
    client.cookies["django_language"] = "ko"
    run = make_run(trigger="retry", state="stopped", message="Stopped by Ann.")
    page = client.get(addresses(run)[0]).content.decode()
    assert "다시 시도 ·" in page or ">다시 시도<" in page
    assert "Ann 님이 중지했습니다." in page
    assert "다시 시도</td>" in client.get(logs_address()).content.decode()


def test_a_page_resumes_behind_its_cursor(as_person, run):
    a_round(run, 1)
    client = as_person("mina")
    address = addresses(run)[1]
    answer = client.get(f"{address}?after=4", headers={"Accept": "text/html"})
    assert answer["X-Log-Cursor"] == "6"
    assert answer["X-Log-More"] == "0"
    body = answer.content.decode()
    assert 'id="event-5"' in body
    assert 'id="event-4"' not in body
    assert '<template data-part="head">' in body
    as_json = client.get(f"{address}?after=4", headers={"Accept": "application/json"})
    assert [one["seq"] for one in as_json.json()["records"]] == [5, 6]


@pytest.mark.parametrize(
    "query", ["?after=-1", "?after=x", "?before=9e9", "?at=%00", "?q=%00", "?group=<b>"]
)
def test_an_address_that_makes_no_sense_shows_the_log(as_person, run, query):
    a_round(run, 1)
    client = as_person("mina")
    for address in addresses(run):
        assert client.get(address + query).status_code == 200


def test_hostile_text_is_inert_on_every_page(as_person, run):
    run.conversation.title = HOSTILE
    run.conversation.save()
    run.started_by.display_name = HOSTILE[:80]
    run.started_by.save()
    run.agent.title = HOSTILE[:80]
    run.agent.save()
    Run.objects.filter(pk=run.pk).update(
        message=HOSTILE, model_name=HOSTILE, trigger=HOSTILE[:20], state="failed"
    )
    tell(
        run,
        (
            events.ToolCalled,
            {
                "tool": HOSTILE,
                "call_id": HOSTILE,
                "arguments": HOSTILE,
                "decision": HOSTILE,
            },
        ),
    )
    client = as_person("vera")
    for address in [*addresses(run)[:2], logs_address(), reverse("observability:home")]:
        page = client.get(address, headers={"Accept": "text/html"}).content.decode()
        assert "<script>alert" not in page
        assert "<svg onload" not in page
        assert 'href="javascript' not in page
        assert not set(page) & {"\x1b", "\u202e", "\u2066"}, address


def test_a_download_has_one_line_for_each_event_and_hides_nothing(as_person, run):
    a_round(run, 1)
    tell(run, (events.RunFailed, {"message": "셋째 줄\n" + HOSTILE}))
    answer = as_person("vera").get(addresses(run)[2])
    assert answer["Content-Type"] == "application/x-ndjson"
    assert "attachment" in answer["Content-Disposition"]
    text = answer.content.decode()
    events_read = [json.loads(line) for line in text.split("\n")[:-1]]
    assert [event["seq"] for event in events_read] == list(range(1, 8))
    assert events_read[6]["data"]["message"] == "셋째 줄\n" + HOSTILE
    assert not set(text) & {"\x1b", "\u202e", "\u2066"}


def test_a_download_too_large_for_one_answer_names_the_next(
    as_person, run, monkeypatch
):
    monkeypatch.setattr("observability.views.MOST_DOWNLOAD", 4)
    a_round(run, 1)
    client = as_person("mina")
    first = client.get(addresses(run)[2])
    assert first["Link"] == f'<{addresses(run)[2]}?after=4>; rel="next"'
    second = client.get(addresses(run)[2] + "?after=4")
    assert len(second.content.splitlines()) == 2
    assert "Link" not in second


def test_figures_tell_the_cache_rate_of_the_input(as_person, make_run):
    run = make_run(
        state="finished",
        tokens_in=12_431,
        tokens_cached=11_300,
        tokens_out=420,
        cost="0.0312",
        started_at=timezone.now() - timedelta(seconds=75),
        ended_at=timezone.now(),
    )
    page = as_person("mina").get(addresses(run)[0]).content.decode()
    for text in ("12.4k / 420", "91 %", "$0.0312", "1 min 1"):
        assert text in page, text


def test_without_records_every_page_still_works(as_person, run):
    a_round(run, 1)
    Record.objects.all().delete()
    client = as_person("mina")
    assert "Nothing has happened yet" in client.get(addresses(run)[0]).content.decode()


def test_times_are_those_of_the_workspace(as_person, make_run):
    at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    run = make_run(created_at=at)
    run.workspace.time_zone = "Asia/Seoul"
    run.workspace.save()
    client = as_person("mina")
    for address in (addresses(run)[0], logs_address(), reverse("observability:home")):
        page = client.get(address).content.decode()
        assert "2026-03-02 08:30" in page, address
