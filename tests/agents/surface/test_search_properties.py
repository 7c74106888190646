"""What holds for any text and any catalogue."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import ToolError
from agents.surface.grammar import find
from agents.surface.search import Document
from agents.surface.search.documents import digest
from agents.surface.search.index import Index
from agents.surface.search.spelling import distance
from agents.surface.search.vectors import vectors
from agents.surface.search.words import terms

ANY = st.text(st.characters(codec=None), max_size=60)
WORDS = st.lists(
    st.sampled_from(
        (
            "read",
            "send",
            "files",
            "mail",
            "파일",
            "날씨",
            "검색을",
            "readFile",
            "the",
            "x9",
        )
    ),
    max_size=6,
).map(" ".join)
NAMES = st.from_regex(r"[a-z]{2,6}(_[a-z]{2,6}){0,2}", fullmatch=True)
DOCUMENTS = st.lists(
    st.builds(Document, name=NAMES, server=WORDS, description=WORDS | ANY),
    max_size=8,
    unique_by=lambda each: each.name,
)
BOTH = pytest.mark.parametrize("table", [None, vectors()], ids=["words", "vectors"])
few = settings(max_examples=80, deadline=None)


@BOTH
@few
@given(documents=DOCUMENTS, query=ANY | WORDS, limit=st.integers(-1, 30))
def test_any_query_gives_tools_of_the_catalogue_once_and_best_first(
    table, documents, query, limit
):
    hits = Index(documents, table).rank(query, limit)
    names = [hit.name for hit in hits]
    assert set(names) <= {each.name for each in documents}
    assert len(names) == len(set(names)) <= max(0, limit)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.name))


@BOTH
@few
@given(documents=DOCUMENTS, query=WORDS, random=st.randoms())
def test_the_order_of_a_catalogue_changes_nothing(table, documents, query, random):
    shuffled = random.sample(documents, len(documents))
    assert Index(documents, table).rank(query, 9) == Index(shuffled, table).rank(
        query, 9
    )
    assert digest(documents) == digest(shuffled)


@BOTH
@few
@given(documents=DOCUMENTS.filter(bool), data=st.data())
def test_a_tool_is_first_for_its_own_name(table, documents, data):
    name = data.draw(st.sampled_from([each.name for each in documents]))
    first = Index(documents, table).rank(name, 1)[0].name
    assert first.replace("_", "") == name.replace("_", "")


@few
@given(documents=DOCUMENTS, query=ANY | WORDS | NAMES.map("select:x,{}".format))
def test_any_query_of_the_grammar_is_answered_or_refused_in_words(documents, query):
    if not query.strip() or query.strip(" :,'`\"").casefold() in ("select", "group"):
        return  # asks for nothing; refused, as the grammar's own tests say
    try:
        found = find(query, Index(documents))
    except ToolError as refused:
        pytest.fail(f"{query!r}: {refused}")
    assert {hit.name for hit in found.hits} <= {each.name for each in documents}


@few
@given(text=ANY)
def test_the_terms_of_a_text_do_not_depend_on_its_case_or_form(text):
    assert terms(text) == terms(text)
    assert all(term and term == term.casefold() for term in terms(text))


@few
@given(one=st.text("abc", max_size=6), other=st.text("abc", max_size=6))
def test_distance_counts_slips_alike_in_both_directions(one, other):
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)
