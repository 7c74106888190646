"""A run that never searched, searched in vain, or took a look-alike: told apart."""

from __future__ import annotations

import pytest
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import events
from observability import queries
from observability.diagnosis import KINDS, Broken, Event, diagnose
from tests.observability.calls import a_call
from tests.observability.conftest import tell

DESCRIPTIONS = {
    "git_log": "Show the history of commits.",
    "weather": "Forecast for a city.",
}


def searched(seq: int, query: str, *hits: tuple[str, float]) -> Event:
    found = [list(hit) for hit in hits]
    return Event(seq, "tool.searched", {"query": query, "hits": found})


def called(seq: int, tool: str) -> Event:
    return Event(seq, "tool.called", {"tool": tool})


def kinds(*args, **kwargs) -> list[str]:
    return [one.kind for one in diagnose(*args, **kwargs)]


@pytest.mark.parametrize(
    "answer",
    [
        "Sorry, I don't have a tool to look that up.",
        "I cannot access the internet from here.",
        "There is no suitable tool for this.",
        "죄송하지만 날씨를 확인할 도구가 없습니다.",
        "외부 사이트에 접근할 수 없습니다.",
    ],
)
def test_giving_up_without_a_search_is_never_looked(answer):
    assert kinds([], answer=answer, could_search=True) == ["never-looked"]
    assert kinds([], answer=answer, could_search=False) == []
    looked = [searched(1, "forecast", ("weather", 2.0)), called(2, "weather")]
    assert kinds(looked, answer=answer, could_search=True) == []


def test_an_answer_that_lacks_nothing_is_not_suspected():
    for answer in (
        "It is snowing.",
        "I can do that with the tools here.",
        "다 됐습니다.",
    ):
        assert kinds([], answer=answer, could_search=True) == []


def test_a_search_that_loads_nothing_names_the_words_that_nothing_holds():
    [found] = diagnose([searched(4, "snow forecast")], descriptions=DESCRIPTIONS)
    assert (found.kind, found.seq) == ("search-miss", 4)
    assert "snow." in found.detail
    assert "forecast." not in found.detail


def test_hits_that_were_not_used_are_a_miss_too():
    one = searched(4, "history", ("git_log", 1.0))
    assert kinds([one], descriptions=DESCRIPTIONS) == ["search-miss"]
    assert kinds([one, called(5, "git_log")], descriptions=DESCRIPTIONS) == []


def test_a_tool_that_was_used_while_a_neighbour_fits_as_well_is_a_look_alike():
    near = searched(1, "commits", ("git_show", 3.0), ("git_log", 2.9))
    far = searched(1, "commits", ("git_log", 9.0), ("git_show", 2.0))
    [found] = diagnose([near, called(2, "git_log")])
    assert found.kind == "look-alike"
    assert found.detail.startswith("git_log was called; git_show fits")
    assert kinds([far, called(2, "git_log")]) == []
    assert kinds([far, called(2, "git_show")]) == ["look-alike"]


def test_loops_breaks_and_budgets_follow_in_that_order():
    found = kinds(
        [
            Event(1, "budget.warned", {}),
            Event(2, "loop.suspected", {"tool": "shell", "count": 5}),
        ],
        broken=[Broken(3, "mode", "mode", 9_000)],
    )
    assert found == ["loop", "cache", "budget"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(
        st.builds(
            Event,
            st.integers(1, 99),
            st.sampled_from(KINDS),
            st.dictionaries(
                st.sampled_from(["query", "hits", "tool", "count", "names"]), VALUES
            ),
        ),
        max_size=8,
    )
)
def test_records_that_were_erased_or_cut_never_break_the_page(found):
    diagnose(found, answer="no tool", could_search=True, descriptions=DESCRIPTIONS)


def test_the_page_of_a_run_says_what_stands_out(as_person, run):
    tell(
        run,
        (events.ToolSearched, {"query": "<b>fly", "hits": []}),
        (events.LoopSuspected, {"tool": "shell", "count": 5}),
    )
    verdict = {"segment": "tool:x", "cause": "policy change", "lost_tokens": 5_000}
    a_call(run, cache_break=verdict)
    address = reverse("observability:run", args=["harbour", run.pk])
    page = as_person("mina").get(address).content.decode()
    assert page.index("A search led to nothing") < page.index("It went in circles")
    assert "5000 cached tokens: The tool policy was changed" in page
    assert "<b>fly" not in page
    assert as_person("otto").get(address).status_code == 404


def test_loops_and_cache_have_filters_of_their_own(run):
    tell(
        run,
        (events.LoopSuspected, {"tool": "shell", "count": 5}),
        (events.PrefixChanged, {"segment": "tools", "cause": "load"}),
    )
    counts = queries.count_kinds(run.pk)
    assert (counts["loops"], counts["cache"]) == (1, 1)
