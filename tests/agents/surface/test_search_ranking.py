"""Which tools a query finds, in which order, and when the answer is nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from agents.surface.search import Document, document_of, index_of, make_ranker
from agents.surface.search.index import Index
from agents.surface.search.vectors import vectors

TOOLS = (
    Document(
        "mcp__github__get_pull_request",
        "github",
        "Get a pull request.",
        arguments={"pullNumber": "", "owner": "Who owns the repository"},
    ),
    Document("mcp__github__create_issue", "github", "Open a new issue."),
    Document("mcp__slack__send_message", "slack", "Post to a channel."),
    Document("browser_navigate", "browser", "Go to an address in the browser."),
    Document("read_file", "files", "Read a file.", hints=("open", "파일", "읽기")),
    Document("weather_forecast", "weather", "날씨 예보를 조회합니다."),
    Document("calculateBmi", "health", "Body mass from height and weight."),
    Document("archive_create", "archive", "Compress files into one."),
)


@pytest.fixture(scope="module", params=["words alone", "with vectors"])
def found(request):
    index = Index(TOOLS, vectors() if request.param == "with vectors" else None)
    return lambda query, limit=5: [hit.name for hit in index.rank(query, limit)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("compressing file", "archive_create"),
        ("issues", "mcp__github__create_issue"),
        ("navigating browsers", "browser_navigate"),
        ("weathers", "weather_forecast"),
    ],
)
def test_plurals_and_inflections_find_the_plain_word(found, query, name):
    assert found(query)[0] == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("bmi", "calculateBmi"),
        ("pull number", "mcp__github__get_pull_request"),
        ("who owns a repository", "mcp__github__get_pull_request"),
        ("pullrequest", "mcp__github__get_pull_request"),
        ("slack", "mcp__slack__send_message"),
    ],
)
def test_words_of_identifiers_arguments_and_servers_are_found(found, query, name):
    assert found(query)[0] == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("파일을", "read_file"),
        ("파일에서 내용을 읽기", "read_file"),
        ("오늘 날씨는?", "weather_forecast"),
        ("\u1102\u1161\u11af\u110a\u1175", "weather_forecast"),  # 날씨, decomposed
        ("이슈 생성해줘", "mcp__github__create_issue"),
    ],
)
def test_korean_finds_korean_words_and_english_ones_for_the_same(found, query, name):
    assert found(query)[0] == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("caculate", "calculateBmi"),
        ("brwoser", "browser_navigate"),
        ("mesage", "mcp__slack__send_message"),
    ],
)
def test_a_slip_of_spelling_is_mended(found, query, name):
    assert found(query)[0] == name


@pytest.mark.parametrize(
    "query",
    ["quantum banana telescope", "", "  ", "???", "the of and", "양자 바나나", "🙂"],
)
def test_a_query_that_shares_no_word_with_any_tool_finds_nothing(found, query):
    assert found(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "mcp__slack__send_message",
        "send_message",
        "slack.sendMessage",
        "MCP slack SEND-message",
    ],
)
def test_a_name_in_any_spelling_comes_first(found, query):
    assert found(query)[0] == "mcp__slack__send_message"


def test_a_path_asks_for_a_file_and_not_for_the_words_inside_it(found):
    assert found("open /srv/github/slack/weather.txt")[0] == "read_file"


def test_a_request_of_several_jobs_finds_a_tool_for_each(found):
    request = (
        "Create an issue about the crash, then send a message to the slack channel"
    )
    assert set(found(request)[:2]) == {
        "mcp__github__create_issue",
        "mcp__slack__send_message",
    }


def test_equal_tools_are_ordered_by_name():
    alike = [Document(name, "", "Sends a fax.") for name in ("b1", "c1", "a1")]
    assert [hit.name for hit in Index(alike).rank("fax", 3)] == ["a1", "b1", "c1"]


def test_the_limit_keeps_the_best(found):
    everything = found("file message browser issue weather", 8)
    assert len(everything) > 3
    assert found("file message browser issue weather", 3) == everything[:3]
    assert found("file", 0) == []


def test_an_empty_catalogue_answers_nothing():
    assert Index(()).rank("anything", 5) == []
    assert Index((), vectors()).rank("anything", 5) == []


def test_the_same_tools_in_another_order_share_one_index():
    assert index_of(TOOLS) is index_of(reversed(TOOLS))
    assert index_of(TOOLS) is not index_of(TOOLS[1:])


def test_a_changed_word_of_a_description_is_found_at_once():
    changed = Document("read_file", "files", "Peruse a scroll.")
    assert not index_of([TOOLS[4]]).rank("scroll", 1)
    assert [hit.name for hit in index_of([changed]).rank("scrolls", 1)] == ["read_file"]


def test_nested_arguments_choices_and_variants_of_a_schema_are_found():
    nested = {"type": "object", "properties": {"zip": {"description": "postcode"}}}
    schema = {
        "properties": {
            "to": {"anyOf": [{"type": "array", "items": nested}, {"type": "null"}]},
            "speed": {"enum": ["express", 3, None]},
        }
    }
    tool = {"name": "t", "server": None, "description": None, "input_schema": schema}
    rank = make_ranker([tool])
    assert document_of(tool).arguments.keys() == {"to", "zip", "speed"}
    assert all(rank(word, 5) == ["t"] for word in ("zip", "postcodes", "express"))


@pytest.mark.parametrize(
    "schema",
    [None, [], "text", {"properties": []}, {"properties": {"a": True}}, {"anyOf": 3}],
)
def test_a_malformed_schema_still_leaves_the_name_to_be_found(schema):
    assert make_ranker([{"name": "odd_tool", "input_schema": schema}])("odd", 5)


def test_a_schema_that_nests_for_ever_is_read_to_a_depth():
    schema = {"properties": {}}
    schema["properties"]["again"] = schema
    assert list(document_of({"name": "t", "input_schema": schema}).arguments) == [
        "again"
    ]


def test_vectors_find_what_is_said_in_other_words():
    if (table := vectors()) is None:
        pytest.skip("wordllama is not installed")
    tools = (
        Document("canine_info", "", "Facts on a canine of any breed and other pets"),
        Document(
            "engine_info", "", "Facts on an engine of any make and other machines"
        ),
    )
    names = [hit.name for hit in Index(tools, table).rank("facts about puppies", 2)]
    assert names == ["canine_info", "engine_info"]


def test_korean_queries_never_reach_the_english_vectors():
    class Refusing:
        def embed(self, texts):
            assert all(text.isascii() for text in texts if "날씨" in text)
            return np.zeros((len(texts), 4), np.float32)

    index = Index([TOOLS[4]], Refusing())
    assert index.rank("파일 weather 날씨", 5)


def test_importing_search_loads_neither_numbers_nor_vectors():
    code = (
        "import sys, agents.surface.search, agents.surface.grammar;"
        "print({'numpy', 'tokenizers', 'wordllama', 'snowballstemmer'} & {*sys.modules})"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "set()"


def test_searching_imports_no_loader_that_may_download():
    code = (
        "import sys; from agents.surface.search import make_ranker;"
        "assert make_ranker([{'name': 'read_file'}])('read', 1);"
        "print({'torch', 'requests', 'huggingface_hub', 'wordllama'} & {*sys.modules})"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert seen.stdout.strip() == "set()"


@pytest.mark.parametrize("query", ["티켓을 넘겨줘", "tickets", "assigning"])
def test_hints_in_two_languages_are_found_in_any_inflection(query):
    names = ("ticket_list", "ticket_get", "ticket_relation", "ticket_create")
    others = [Document(name, "tickets", f"{name[7:]} of work items") for name in names]
    wanted = Document(
        "ticket_assign",
        "tickets",
        "Gives a work item to a person.",
        hints=("assign", "hand off", "티켓", "넘기기", "넘겨주기"),
    )
    index = Index((*TOOLS, *others, wanted))
    assert "ticket_assign" in [hit.name for hit in index.rank(query, 3)]
