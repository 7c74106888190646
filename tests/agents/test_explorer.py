"""The context explorer shows what would be sent, to whoever may read it."""

from __future__ import annotations

import hashlib
import html
import io
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from agents import explorer
from agents.actions import agent_of, start_conversation
from agents.context.preview import preview
from agents.models import Run
from agents.providers.base import Usage
from agents.providers.scripted import calls, says
from workspace.models import Conversation, Entry

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\\u003c\u202e"
JSON = {"Accept": "application/json"}


def address(conversation: Conversation, name: str = "context", **extra: str) -> str:
    kwargs = {"slug": conversation.workspace.slug, "conversation_id": conversation.pk}
    return reverse(f"agents:{name}", kwargs=kwargs | extra)


def figure(text: str) -> int:
    return int(re.sub(r"\D", "", text))


@pytest.fixture
def explored(script, start_turn, conversation) -> Conversation:
    """A conversation that used a tool, and whose texts mean harm."""
    script(
        calls("read_file", path=HOSTILE),
        says(HOSTILE, usage=Usage(input=900, cache_read=2100, output=3, reported=True)),
    )
    start_turn(HOSTILE)
    return conversation


@pytest.fixture
def page(client, explored, owner) -> str:
    client.force_login(owner)
    return client.get(address(explored)).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["context", "context_json", "context_find"])
def test_readers_see_the_explorer_and_others_learn_nothing(
    name, conversation, client, viewer, outsider
):
    client.force_login(viewer)
    assert client.get(address(conversation, name)).status_code == 200
    assert client.post(address(conversation, name)).status_code == 405
    client.force_login(outsider)
    assert client.get(address(conversation, name)).status_code == 404


@pytest.mark.django_db
def test_a_private_conversation_is_explored_by_its_owner_alone(
    workspace, member, owner, client
):
    private = start_conversation(workspace=workspace, author=member, private=True)
    digest = preview(private, agent_of(private)).assembled.segments[0].digest
    places = [
        address(private),
        address(private, "context_json"),
        address(private, "context_find"),
        address(private, "context_segment", digest=digest),
    ]
    client.force_login(member)
    assert {client.get(place).status_code for place in places} == {200}
    client.force_login(owner)
    assert {client.get(place).status_code for place in places} == {404}


@pytest.mark.django_db
def test_the_address_with_json_answers_what_the_command_prints(explored, client, owner):
    client.force_login(owner)
    printed = io.StringIO()
    call_command("context", str(explored.pk), "--json", stdout=printed)
    with override("ko"):
        answer = client.get(address(explored, "context_json"), headers=JSON).json()
    assert answer == json.loads(printed.getvalue())
    assert answer["last"]["total"] == 3000


@pytest.mark.django_db
def test_the_rows_on_the_page_add_up_and_so_do_the_parts_below_them(page, explored):
    total = preview(explored, agent_of(explored)).next.total
    rows = re.findall(r'<tr data-row="\w+">.*?<td class="number">([^<]+)', page)
    assert len(rows) >= 4
    assert sum(map(figure, rows)) == total
    [tree] = re.findall(r'id="tree">(.*?)</section>', page, re.DOTALL)
    tokens = r'<span class="tree-tokens">([^<]+)'
    groups = tree.split('class="tree-group"')[1:]
    for group in groups:
        first, *parts = map(figure, re.findall(tokens, group))
        assert first == sum(parts)
    assert len(groups) == len(rows)
    assert "reported; 70 % cached" in page


@pytest.mark.django_db
def test_the_segments_in_their_order_are_the_bytes_of_the_digest(
    page, explored, client
):
    found = preview(explored, agent_of(explored)).assembled
    body = b"".join(
        client.get(
            address(explored, "context_segment", digest=one.digest),
            headers={"Accept": "text/html", "Sec-Fetch-Mode": "navigate"},
        ).content
        for one in found.segments
    )
    assert hashlib.sha256(body).hexdigest() == found.digest
    assert found.digest in page
    assert all(one.digest in page for one in found.segments)


@pytest.mark.django_db
def test_a_large_segment_comes_in_pieces_that_are_the_whole(
    script, start_turn, conversation, client, owner
):
    text = "한글 and English\n" * 6000
    script(says("Read."))
    start_turn(text)
    client.force_login(owner)
    segments = preview(conversation, agent_of(conversation)).assembled.segments
    one = max(segments, key=lambda segment: segment.size)
    url = address(conversation, "context_segment", digest=one.digest)
    pieces, number = [], 0
    while number or not pieces:
        answer = client.get(f"{url}?part={number}", headers=JSON).json()
        assert len(answer["text"]) <= explorer.PART_LENGTH
        pieces.append(answer["text"])
        number = answer["next"]
    assert len(pieces) > 2
    assert "".join(pieces).encode() == one.data
    plain = client.get(url, headers={"Accept": "text/html"})
    assert plain.content == one.data
    assert client.get(f"{url}?part=99", headers=JSON).status_code == 400
    assert client.get(f"{url}?part=-1", headers=JSON).status_code == 400


@pytest.mark.django_db
def test_a_segment_that_is_not_part_of_the_next_request_is_not_there(
    explored, client, owner
):
    client.force_login(owner)
    url = address(explored, "context_segment", digest="0123456789abcdef")
    assert client.get(url, headers=JSON).status_code == 404


@pytest.mark.django_db
def test_hostile_text_is_only_ever_text(page, explored, client):
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert html.escape("<script>alert(1)") in page
    for one in preview(explored, agent_of(explored)).assembled.segments:
        url = address(explored, "context_segment", digest=one.digest)
        plain = client.get(url, headers={"Accept": "text/html"})
        assert plain["Content-Type"] == "text/plain; charset=utf-8"
        assert plain["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in plain["Content-Security-Policy"]
        scripted = client.get(url, headers=JSON)
        assert scripted["Content-Type"] == "application/json"


@pytest.mark.django_db
def test_no_script_or_style_stands_in_the_page_itself(page):
    inline = re.findall(r"<script(?![^>]*(?:src=|application/json))[^>]*>", page)
    assert inline == []
    assert not re.search(r"\s(?:style|on\w+)=", re.sub(r">[^<]*<", "><", page))


@pytest.mark.django_db
def test_words_are_found_in_titles_and_texts_with_their_escapes_undone(
    script, start_turn, conversation, client, owner
):
    script(says("Fine."))
    start_turn('First line\nsecond "quoted" line')
    client.force_login(owner)

    def found(words: str) -> list[str]:
        url = address(conversation, "context_find")
        return client.get(url, {"q": words}, headers=JSON).json()["found"]

    [said] = found('SECOND "quoted" LINE')
    [title] = found("Safety and permissions")
    assert said != title
    assert found("nowhere to be found") == []
    plain = client.get(address(conversation), {"q": 'second "quoted" line'})
    shown = re.findall(r'<li data-digest="(\w+)">', plain.content.decode())
    assert shown == [said]


@pytest.mark.django_db
def test_every_deferred_tool_is_listed_with_both_prices_and_its_schema(page, explored):
    found = preview(explored, agent_of(explored))
    assert found.on_demand
    demand = page.split('class="demand"')[1].split("</section>")[0]
    for tool in found.on_demand:
        assert html.escape(tool.schema, quote=True).replace("&#x27;", "&#39;") in demand
        assert f"<bdi>{tool.name}</bdi>" in demand


@pytest.mark.django_db
def test_a_loaded_tool_is_marked(script, start_turn, conversation, client, owner):
    script(calls("tool_search", query="select:list_dir"), says("Loaded."))
    start_turn("Load it")
    client.force_login(owner)
    page = client.get(address(conversation)).content.decode()
    assert page.count("badge-good") == 1
    assert "badge-good" in page.split("<bdi>list_dir</bdi> <small>")[1][:200]


@pytest.mark.django_db
def test_an_empty_on_demand_list_names_the_switch_that_is_off(
    settings, workspace, client, owner
):
    settings.TOOL_DEFERRAL = False
    conversation = start_conversation(workspace=workspace, author=owner)
    client.force_login(owner)
    page = client.get(address(conversation)).content.decode()
    assert "The switch TOOL_DEFERRAL is off" in page
    assert 'class="demand"' not in page


@pytest.mark.django_db
def test_changes_count_the_tool_and_its_line_in_the_index(explored):
    found = preview(explored, agent_of(explored))
    shown = explorer.explored(explored, found)
    segments = {one.id: one.tokens for one in found.assembled.segments}
    deferred = {tool.name: tool for tool in found.on_demand}
    line = found.on_demand[0].index_tokens
    assert {tool.name for tool in shown.deferred} == set(deferred)
    for tool in shown.declared:
        assert tool.change == pytest.approx(line - segments[f"tool:{tool.name}"])
        assert tool.fixed == (tool.name in ("tool_search", "tool_call"))
    for tool in shown.deferred:
        price = deferred[tool.name]
        assert tool.change == pytest.approx(price.load_tokens - price.index_tokens)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "query"), [("/context", ""), (" /context  detail ", "?open")]
)
def test_the_command_opens_the_page_and_is_neither_stored_nor_sent(
    text, query, conversation, client, owner
):
    client.force_login(owner)
    url = address(conversation, "post")
    fields: dict[str, Any] = {"text": text, "client_id": "1"}
    assert client.post(url, fields, headers=JSON).json() == {
        "ok": True,
        "open": address(conversation) + query,
    }
    plain = client.post(url, fields, headers={"Sec-Fetch-Mode": "navigate"})
    assert plain["Location"] == address(conversation) + query
    assert not conversation.entries.filter(kind=Entry.Kind.USER).exists()
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_the_command_as_a_first_message_explores_an_empty_conversation(
    workspace, client, owner
):
    client.force_login(owner)
    url = reverse("agents:new", args=[workspace.slug])
    answer = client.post(url, {"text": "/context"}, follow=True)
    assert answer.status_code == 200
    conversation = Conversation.objects.get()
    assert answer.redirect_chain == [(address(conversation), 302)]
    assert not conversation.entries.filter(kind=Entry.Kind.USER).exists()


@pytest.mark.django_db
def test_a_text_that_only_begins_like_the_command_is_a_message(
    conversation, client, owner
):
    client.force_login(owner)
    fields = {"text": "/context is a command", "client_id": "1"}
    client.post(address(conversation, "post"), fields, headers=JSON)
    assert conversation.entries.filter(kind=Entry.Kind.USER).count() == 1


@pytest.mark.django_db
def test_an_agent_that_is_gone_is_said_in_a_sentence(conversation, client, owner):
    Conversation.objects.filter(pk=conversation.pk).update(agent_name="gone")
    client.force_login(owner)
    answer = client.get(address(conversation))
    assert answer.status_code == 409
    assert "no longer exists" in answer.content.decode()


@pytest.mark.django_db
def test_the_page_speaks_korean(explored, client, owner):
    client.force_login(owner)
    client.cookies["django_language"] = "ko"
    page = client.get(address(explored)).content.decode()
    for word in (
        "시스템 프롬프트",
        "기본 제공 도구",
        "read_file 결과",
        "사용자 메시지",
    ):
        assert word in page


@pytest.mark.django_db
def test_the_page_asks_the_database_no_more_for_a_longer_conversation(
    script, start_turn, conversation, client, owner, django_assert_max_num_queries
):
    client.force_login(owner)
    script(*(says("Hi.") for _ in range(6)))
    for _ in range(6):
        start_turn("Hi")
    with django_assert_max_num_queries(24):
        client.get(address(conversation))


def test_no_page_loads_the_vocabulary_before_something_is_counted():
    loaded = (
        "import django, sys; django.setup(); import workspace.urls; "
        "print({'tiktoken', 'bpe_openai'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ('{"role":"user","content":"He said \\"no\\".\\nThen"},', 'He said "no". Then'),
        (
            '{"content":null,"function":{"name":"a","arguments":"{\\"b\\": 1}"}}',
            '{"b": 1}',
        ),
        ("]}", "]}"),
        ('"content":"\\u003cb\\u003e"', "<b>"),
    ],
)
def test_a_segment_is_introduced_by_its_words(text, begin):
    assert explorer.excerpt(text) == begin


@given(st.text())
def test_any_text_has_an_excerpt_of_bounded_length(text):
    assert len(explorer.excerpt(text)) <= explorer.EXCERPT_LENGTH + 1


@given(st.lists(st.integers(0, 300_000), max_size=12))
def test_a_bar_is_full_and_shows_whatever_has_tokens(tokens):
    made = explorer.slices([(str(at), "", one) for at, one in enumerate(tokens)])
    assert [one.tokens for one in made] == [one for one in tokens if one]
    assert sum(one.length for one in made) == (explorer.BAR_UNITS if made else 0)
    assert all(one.length >= explorer.LEAST_UNITS for one in made)
