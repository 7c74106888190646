"""What servers say is bounded, cleaned and named before anything else sees it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mcp import health
from agents.mcp.listing import MOST_TOOLS, listing
from agents.mcp.names import LONGEST, full_names, is_server_name, server_of
from agents.mcp.schemas import problems, usable
from agents.models import McpServer
from tests.agents.servers import serve, tool

NAMES = st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=8)


@given(NAMES)
def test_full_names_are_distinct_plain_and_short_in_whatever_order(names):
    found = full_names("git-hub", names)
    assert set(found) == set(names)
    assert len(set(found.values())) == len(names)
    assert found == full_names("git-hub", reversed(names))
    for name in found.values():
        assert re.fullmatch(r"mcp__git-hub__[A-Za-z0-9_-]*", name)
        assert len(name) <= LONGEST


@given(NAMES, st.text(min_size=1, max_size=80))
def test_a_name_that_needs_no_change_keeps_its_place_whoever_joins(names, other):
    plain = "list_issues"
    assert full_names("s", [*names, other, plain])[plain] == "mcp__s__list_issues"


def test_two_names_that_would_become_one_are_told_apart_by_a_hash():
    found = full_names("s", ["get.item", "get/item", "get_item"])
    assert found["get_item"] == "mcp__s__get_item"
    assert len(set(found.values())) == 3
    assert found["get.item"].startswith("mcp__s__get_item_")


@pytest.mark.parametrize("name", ["a__b", "a_", "_a", "", "a b", "a.b", "x" * 31, "é"])
def test_a_servers_name_can_be_read_back_out_of_a_full_name(name):
    assert not is_server_name(name)


def test_the_server_is_what_stands_before_the_second_pair_of_underscores():
    assert is_server_name("git_hub-2")
    assert server_of(full_names("git_hub-2", ["_odd__name"])["_odd__name"]) == (
        "git_hub-2"
    )
    assert server_of("read_file") == ""


def test_equal_tools_in_any_order_are_one_listing():
    one, two = tool("a", path="string"), tool("b")
    assert listing("x", [one, two]) == listing("x", [two, one])
    assert listing("x", [one, two]).digest == listing("x", [two, one]).digest
    assert listing("x", [one]).digest != listing("y", [one]).digest


def refused(*tools):
    found = listing("", tools)
    assert len(found.tools) + len(found.refused) == len(tools)
    return " ".join(found.refused)


def test_what_cannot_be_a_tool_is_left_out_with_its_reason_and_the_rest_stays():
    assert (
        refused(tool("a"), tool("a")) == "'a': the server lists two tools of this name"
    )
    assert "1 to 200 characters" in refused(tool("n" * 201), tool("good"))
    assert "1 to 200 characters" in refused({"schema": {"type": "object"}})
    assert f"may offer {MOST_TOOLS} tools" in refused(
        *(tool(f"t{number:05}") for number in range(MOST_TOOLS + 1))
    )


def nested(levels):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (None, "is not an object"),
        ([], "is not an object"),
        ({"type": "array"}, "does not describe an object"),
        ({"type": "object", "properties": 3}, "is not a JSON schema"),
        ({"type": "object", "description": "x" * 70_000}, "larger than 64 KiB"),
        ({"type": "object", "default": float("nan")}, "what JSON cannot"),
        (nested(60), "nested too deeply"),
        (nested(5_000), "nested too deeply"),
    ],
)
def test_a_schema_that_cannot_be_one_is_named(schema, words):
    assert words in usable(schema)


def fits(schema, **values):
    return problems(json.dumps(schema), values) == []


def test_arguments_are_held_against_types_and_required_names_only():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"enum": ["a", "b"]}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert fits(schema, n=1)
    assert fits(schema, n=1, s="a", unknown=True)
    assert fits(schema, n=1, s=None)
    assert not fits(schema, n="1")
    assert not fits(schema, s="a")
    assert not fits(schema, n=None)
    [told] = problems(json.dumps(schema), {"n": "one"})
    assert told.startswith("n: ")


def test_a_pattern_that_never_ends_is_not_tried():
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    assert fits(schema, a="a" * 60 + "!")


def test_an_argument_called_pattern_is_still_checked():
    schema = {"type": "object", "properties": {"pattern": {"type": "string"}}}
    assert not fits(schema, pattern=3)


def test_a_schema_cannot_make_its_reader_fetch_or_loop():
    away = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}
    assert "refers to what it does not have" in problems(json.dumps(away), {"a": 1})[0]
    doubled = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)
    }
    bomb = {
        "type": "object",
        "$defs": {**doubled, "d40": {}},
        "properties": {"a": {"$ref": "#/$defs/d0"}},
    }
    assert usable(bomb) == ""
    assert "cannot be followed" in problems(json.dumps(bomb), {"a": 1})[0]
    own = {"type": "object", "$ref": "#"}
    assert "cannot be followed" in problems(json.dumps(own), {"a": 1})[0]


def test_an_open_connection_does_not_bring_a_disconnected_server_back(workspace):
    server = serve(workspace, "hub", [tool("a")])
    health.left(server.pk, "an admin disconnected it")
    health.listed(server.pk, listing("", [tool("a"), tool("b")]))
    server.refresh_from_db()
    assert (server.state, len(server.tools)) == (McpServer.State.LEFT, 1)
    health.connecting(server.pk)
    health.listed(server.pk, listing("", [tool("a"), tool("b")]))
    server.refresh_from_db()
    assert (server.state, len(server.tools)) == (McpServer.State.READY, 2)
