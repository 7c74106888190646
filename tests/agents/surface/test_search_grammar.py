"""select:, group:, +required words, limits, and what is said of names not found."""

from __future__ import annotations

import pytest

from agents.errors import ToolError
from agents.surface.grammar import Group, Keywords, Select, clamp, find, parse
from agents.surface.search import Document
from agents.surface.search.index import Index

TOOLS = (
    *(Document(f"mcp__git__op_{n}", "git", "Does a git thing.") for n in range(6)),
    Document("send_mail", "mail", "Send a letter to someone."),
    Document("read_mail", "mail", "Read a letter. Mentions slack once."),
    Document("Case", "odd", "A name in capitals."),
    Document("case", "odd", "A name in small letters."),
)


@pytest.fixture(scope="module")
def index():
    return Index(TOOLS)


def names(found):
    return [hit.name for hit in found.hits]


@pytest.mark.parametrize("query", ["", "  \n", "select:", "SELECT: , '' ,", "group: "])
def test_a_query_that_asks_for_nothing_is_refused_with_what_would_work(query):
    with pytest.raises(ToolError, match="select:NAME") as refused:
        parse(query)
    assert refused.value.code == "empty_query"


def test_quotes_blanks_and_empty_items_of_select_are_dropped():
    assert parse(" Select : \"a\", 'b' ,, `c`") == Select(("a", "b", "c"))
    assert parse("group:'mcp:github'") == Group("mcp:github")


def test_a_plus_asks_for_a_word_only_before_a_letter():
    assert parse("+slack send") == Keywords("slack send", ("slack",))
    assert parse("5 +3 + x") == Keywords("5 +3 + x")


def test_select_keeps_the_order_of_the_query_and_names_a_tool_once(index):
    found = find("select:send_mail,READ_MAIL,read_mail,Send_Mail", index)
    assert names(found) == ["send_mail", "read_mail"]


def test_select_beyond_the_limit_reports_the_rest_as_truncated(index):
    asked = [f"mcp__git__op_{n}" for n in range(6)]
    found = find(f"select:{','.join(asked)}", index)
    assert names(found) == asked[:5]
    assert found.truncated == (asked[5],)


def test_an_unknown_name_comes_with_the_nearest_and_spoils_no_other(index):
    found = find("select:sned_mail,read_mail,zzqx", index)
    assert names(found) == ["read_mail"]
    assert "send_mail" in found.unknown["sned_mail"]
    assert found.unknown["zzqx"] == ()


def test_an_exact_spelling_wins_and_another_that_fits_several_is_ambiguous(index):
    assert names(find("select:Case,case", index)) == ["Case", "case"]
    assert find("select:CASE", index).ambiguous == {"CASE": ("Case", "case")}


def test_a_tool_that_is_declared_already_is_mentioned_on_an_exact_hit_alone(index):
    declared = {"read_file", "shell"}
    assert find("select:Read_File", index, declared=declared).declared == ("read_file",)
    assert find("shell", index, declared=declared).declared == ("shell",)
    assert find("shell command", index, declared=declared).declared == ()


@pytest.mark.parametrize("label", ["mcp:git", "MCP:GIT", "git"])
def test_a_group_lists_its_tools_and_says_what_did_not_fit(index, label):
    found = find(f"group:{label}", index)
    assert names(found) == [f"mcp__git__op_{n}" for n in range(5)]
    assert found.truncated == ("mcp__git__op_5",)


def test_an_unknown_group_comes_with_the_nearest(index):
    assert find("group:mial", index).unknown == {"mial": ("mail",)}


def test_a_required_word_must_stand_in_the_name_not_only_in_the_description(index):
    assert names(find("+slack letter", index)) == []
    assert set(names(find("+mails letter", index))) == {"read_mail", "send_mail"}
    assert names(find("+send letter", index)) == ["send_mail"]


def test_a_required_piece_of_a_name_is_enough_but_not_one_letter(index):
    assert names(find("+nd_ma", index)) == ["send_mail"]
    assert names(find("+s letter", index)) == []


@pytest.mark.parametrize(
    ("asked", "limit"),
    [(None, 5), (0, 1), (-3, 1), (7.9, 7), (21, 20), (float("inf"), 20)]
    + [(float("nan"), 5)],
)
def test_any_number_of_results_is_brought_between_one_and_twenty(asked, limit):
    assert clamp(asked) == limit
