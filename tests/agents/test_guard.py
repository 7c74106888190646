"""The repeat guard: what it stops, what it never stops, and what it says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.context.budget import Limits
from agents.context.cadence import Prices
from agents.context.pruning import Settings
from agents.past_calls import BLOCKED
from agents.providers.base import Message
from tests.agents.acting import Acting, text_of

THREE = "one\ntwo\nthree\n"
WARNING = "this is the 3rd identical {} call in a row; the result has not changed"


def code(body: dict) -> str:
    return (body["error"] or {}).get("code", "")


def test_case_1_an_unchanged_file_read_again_gives_a_stub_and_does_not_run():
    acting = Acting({"a.txt": THREE})
    first = acting.call("read_file", path="a.txt")
    again = acting.call("read_file", path="a.txt")
    sha = first["meta"]["sha256"][:8]
    assert again["ok"]
    assert again["output"] == (
        f"unchanged since your earlier read_file of a.txt (3 lines, sha256 {sha}); "
        "the content in that result is still current"
    )
    assert acting.ran == ["read_file"]
    assert again["meta"]["guard"]["round"] == 1


def test_case_2_the_third_repeat_of_a_read_is_refused_whatever_comes_between():
    acting = Acting({"a.txt": THREE})
    for _ in range(3):
        acting.call("read_file", path="a.txt")
        acting.call("list_dir", path=f"{len(acting.items)}")
    blocked = acting.call("read_file", path="a.txt")
    assert not blocked["ok"]
    assert code(blocked) == BLOCKED
    assert code(acting.call("read_file", path="a.txt")) == BLOCKED


def test_case_3_the_key_is_the_resolved_path_and_the_lines():
    acting = Acting({"a.txt": THREE})
    acting.call("read_file", path="a.txt")
    assert acting.call("read_file", path="./sub/../a.txt")["output"].startswith("unch")
    assert acting.call("read_file", path="/workspace/a.txt")["output"].startswith("unc")
    assert acting.call("read_file", path="a.txt", offset=2)["output"].startswith("2\tt")


def test_lines_named_in_another_way_are_the_same_lines():
    acting = Acting({"a.txt": THREE})
    acting.call("read_file", path="a.txt")
    again = acting.call("read_file", path="a.txt", offset=1, limit=3)
    assert again["output"].startswith("unchanged since")


def test_case_4_a_write_ends_what_is_known_of_every_part_of_the_file():
    acting = Acting({"a.txt": THREE})
    acting.call("read_file", path="a.txt")
    acting.call("read_file", path="a.txt", offset=2)
    acting.call("edit_file", path="a.txt", old_string="one", new_string=THREE)
    assert acting.call("read_file", path="a.txt")["output"].startswith("1\tone")
    assert acting.call("read_file", path="a.txt", offset=2)["output"].startswith("2\t")


def test_case_5_a_file_that_others_change_is_read_every_time():
    acting = Acting({"a.txt": ""})
    for number in range(5):
        acting.files["a.txt"] = f"version {number}\n"
        body = acting.call("read_file", path="a.txt")
        assert f"version {number}" in body["output"]
        assert "has not changed" not in text_of(body)


def test_case_6_the_third_call_in_a_row_is_warned_of_and_the_fourth_refused():
    acting = Acting()
    texts = [text_of(acting.call("git_status")) for _ in range(4)]
    assert not texts[1].endswith(WARNING.format("git_status"))
    assert texts[2].endswith(WARNING.format("git_status"))
    assert texts[3].startswith(f"error {BLOCKED}: STOP calling git_status")
    acting.call("git_log")
    assert acting.call("git_status")["ok"]


def test_a_row_of_failing_calls_is_warned_of_and_refused_too():
    acting = Acting(outputs={"execute_code x": None})
    bodies = [acting.call("execute_code", code="x") for _ in range(4)]
    assert text_of(bodies[2]).endswith(WARNING.format("execute_code"))
    assert code(bodies[3]) == BLOCKED


def test_calls_in_a_row_with_changing_outcomes_are_never_refused():
    acting = Acting()
    for number in range(8):
        acting.outputs["shell date"] = f"{number} o'clock"
        body = acting.call("shell", command="date")
        assert body["output"].startswith(f"{number} o'clock")
        assert "has not changed" not in body["output"]


def test_case_7_a_failing_command_shows_its_output_every_time():
    acting = Acting(outputs={"shell false": None})
    for _ in range(4):
        body = acting.call("shell", command="false")
        assert text_of(body).startswith("trace\nerror exit: exited with 1")
        acting.call("read_file", path=f"{len(acting.items)}")


def test_case_8_a_scan_that_finds_the_same_is_stubbed_twice_and_then_refused():
    acting = Acting({"x": "1"}, outputs={"grep TODO": "a:1: TODO\nb:2: TODO"})
    bodies = []
    for _ in range(4):
        bodies.append(acting.call("grep", pattern="TODO"))
        acting.call("read_file", path="x", offset=len(bodies))
    stub = "same result as your earlier grep call (2 lines)"
    assert [body["output"] for body in bodies[1:3]] == [stub, stub]
    assert code(bodies[3]) == BLOCKED
    assert acting.ran.count("grep") == 3


def test_case_9_a_write_lets_a_refused_scan_run_again():
    acting = Acting(outputs={"grep TODO": "a:1: TODO"})
    for _ in range(4):
        acting.call("grep", pattern="TODO")
        acting.call("glob", pattern=f"{len(acting.items)}")
    acting.call("write_file", path="a", content="done")
    acting.outputs["grep TODO"] = "no matches"
    assert acting.call("grep", pattern="TODO")["output"].startswith("no matches")


def test_case_10_a_large_output_is_recognised_although_only_a_part_is_shown():
    acting = Acting(outputs={"shell make": "\n".join(map(str, range(9000)))})
    first = acting.call("shell", command="make")
    first["output"] = "[left out]"  # what a cap leaves; the hash was taken before
    again = acting.call("shell", command="make")
    assert again["output"] == "same result as your earlier shell call (9000 lines)"


def test_case_11_one_event_per_turn_and_a_note_on_the_result():
    acting = Acting({"x": "1"})
    for number in range(6):
        body = acting.call("web_fetch", url="u")
        acting.call("glob", pattern=f"{number}")
    assert acting.suspected == [("web_fetch", 5)]
    assert "loop suspected: web_fetch with the same arguments has run 6 times" in (
        text_of(body)
    )
    for _ in range(6):
        acting.call("list_dir", path="y")
    assert len(acting.suspected) == 1
    acting.user("go on")
    for _ in range(4):
        assert "loop suspected" not in text_of(acting.call("list_dir", path="y"))
    acting.call("list_dir", path="y")
    assert acting.suspected[1:] == [("list_dir", 5)]


def test_a_loop_in_a_row_is_reported_although_its_calls_are_refused():
    acting = Acting()
    bodies = [acting.call("shell", command="x") for _ in range(5)]
    assert acting.suspected == [("shell", 5)]
    assert "has run 5 times this turn" in text_of(bodies[4])


def test_case_12_without_the_guard_every_call_runs_and_nothing_is_said():
    acting = Acting({"a.txt": THREE}, on=False)
    bodies = [acting.call("read_file", path="a.txt") for _ in range(5)]
    assert {body["output"] for body in bodies} == {"1\tone\n2\ttwo\n3\tthree"}
    assert acting.suspected == []


def test_case_13_what_was_pruned_is_given_in_full_and_then_stubbed_again():
    acting = Acting({"a.txt": THREE * 40})
    acting.call("read_file", path="a.txt")
    for number in range(7):
        acting.call("glob", pattern=f"{number}")
    assert acting.call("read_file", path="a.txt")["output"].startswith("1\tone")
    assert acting.call("read_file", path="a.txt")["output"].startswith("unchanged")


def test_case_13_what_was_compacted_is_given_in_full_and_then_stubbed_again():
    acting = Acting({"a.txt": THREE * 400})
    acting.call("read_file", path="a.txt")
    acting.call("glob", pattern="x")
    made = acting.compact(Limits.of(8_000, 2_000), asked=True)
    assert made
    assert made.strategy == "summarise"
    assert acting.call("read_file", path="a.txt")["output"].startswith("1\tone")
    assert acting.call("read_file", path="a.txt")["output"].startswith("unchanged")


def test_case_13_what_was_rewound_is_given_in_full():
    acting = Acting({"a.txt": THREE})
    acting.call("read_file", path="a.txt")
    acting.append("notice", {"type": "rewind", "to_seq": 3})
    assert acting.call("read_file", path="a.txt")["output"].startswith("1\tone")


def test_4_7_a_fresh_read_after_a_pruned_one_stays_known():
    acting = Acting({"a.txt": THREE * 40})
    acting.call("read_file", path="a.txt")
    for number in range(7):
        acting.call("glob", pattern=f"{number}")
    acting.call("read_file", path="a.txt")
    acting.call("glob", pattern="other")
    assert acting.call("read_file", path="a.txt")["output"].startswith("unchanged")


def test_4_7_a_message_of_a_person_resets_the_count_of_stubs():
    acting = Acting({"a.txt": THREE})
    for _ in range(4):
        body = acting.call("read_file", path="a.txt")
    assert code(body) == BLOCKED
    acting.user("read it again")
    assert acting.call("read_file", path="a.txt")["output"].startswith("unchanged")


def test_4_7_a_message_of_a_person_lets_a_refused_scan_run():
    acting = Acting()
    for _ in range(4):
        body = acting.call("grep", pattern="x")
    assert code(body) == BLOCKED
    acting.user("look again")
    assert acting.call("grep", pattern="x")["output"] == "output of grep x"


def test_4_7_identical_reads_of_one_message_wait_for_each_other():
    acting = Acting({"a.txt": THREE})
    read = ("read_file", {"path": "a.txt"})
    first, second = acting.round(read, read)
    assert first["output"].startswith("1\tone")
    assert second["output"].startswith("unchanged")
    assert acting.ran == ["read_file"]


def test_4_7_a_stub_counts_as_a_read_for_a_later_write():
    acting = Acting({"a.txt": THREE})
    full = acting.call("read_file", path="a.txt")
    stub = acting.call("read_file", path="a.txt")
    assert stub["meta"]["sha256"] == full["meta"]["sha256"]
    assert stub["meta"]["path"] == "a.txt"


def test_4_7_a_note_does_not_make_the_same_output_another_one():
    acting = Acting(outputs={"grep x": "hit"})
    for number in range(3):
        body = acting.call("grep", pattern="x")
        acting.call("glob", pattern=f"{number}")
    assert body["output"].startswith("same result as your earlier grep call (1 lines)")


def test_4_7_tools_that_poll_are_never_refused():
    acting = Acting()
    bodies = [acting.call("job_status", pattern="7") for _ in range(6)]
    assert all(body["ok"] for body in bodies)
    assert bodies[3]["output"].startswith("output of job_status 7")


def test_4_7_names_and_defaults_that_mean_the_same_are_the_same_call():
    acting = Acting()
    acting.call("grep", pattern="x")
    acting.call("grep", pattern="x", path=None)
    assert acting.call("grep", pattern="x")["output"].startswith("same result")


def test_a_refusal_says_where_the_result_is():
    acting = Acting({"a.txt": THREE})
    for _ in range(4):
        body = acting.call("read_file", path="a.txt")
    assert "round 1" in body["error"]["message"]


LIMITS = Limits.of(8_000, 2_000)
ACTIONS = st.sampled_from(
    [
        ("read_file", "a"),
        ("read_file", "a"),
        ("read_file", "b"),
        ("read2", "a"),
        ("grep", "x"),
        ("grep", "x"),
        ("shell", "make"),
        ("shell", "fail"),
        ("write_file", "a"),
        ("change", "b"),
        ("user", ""),
        ("compact", ""),
        ("overflow", ""),
        ("cold", ""),
        ("twice", "a"),
    ]
)
CADENCES = st.sampled_from([1, 3, "auto"])


def act(acting: Acting, action: tuple[str, str], number: int) -> None:
    name, value = action
    if name == "read_file":
        acting.call("read_file", path=value)
    elif name == "read2":
        acting.call("read_file", path=value, offset=2)
    elif name == "twice":
        acting.round(("read_file", {"path": value}), ("read_file", {"path": value}))
    elif name in ("grep", "shell"):
        acting.call(name, **{"pattern" if name == "grep" else "command": value})
    elif name == "write_file":
        acting.call(name, path=value, content=f"text {number}\n" * 60)
    elif name == "change":
        acting.files[value] = f"changed {number}\n" * 60
    elif name == "user":
        acting.user(f"said {number}")
    elif name == "cold":
        acting.prune(cold=True)
    else:
        acting.compact(LIMITS, asked=name == "compact", overflow=name == "overflow")


def world(cadence: int | str) -> Acting:
    return Acting(
        {"a": "line of a\n" * 60, "b": "line of b\n" * 60},
        outputs={"grep x": "hit\n" * 80, "shell make": "ok\n" * 90, "shell fail": None},
        settings=Settings(keep_rounds=2, batch_rounds=cadence),  # type: ignore[arg-type]
        prices=Prices(0.1, 1.25),
    )


def promised(acting: Acting) -> list[dict]:
    """The stubs that the next request shows of the newest round: not read yet."""
    shown = {message.owner.id: message.text for message in acting.messages()}
    rows = [one for one in acting.items if one.kind == "tool_result"]
    newest = rows[-1].body["round"] if rows else 0
    return [
        row.body
        for row in rows
        if row.body["round"] == newest
        and row.body["meta"].get("guard", {}).get("kind") == "stub"
        and shown.get(f"entry:{row.seq}") == text_of(row.body)
    ]


def original(acting: Acting, body: dict) -> str:
    """The full text that a stub stands for, through stubs that were restored."""
    while (guard := body["meta"].get("guard", {})).get("kind") == "stub":
        body = next(
            row.body
            for row in acting.items
            if row.kind == "tool_result"
            and (row.seq == guard["of"] or row.body["call_id"] == guard["of_call"])
        )
    return body["output"]


def stands(text: str, messages: tuple[Message, ...]) -> bool:
    return any(message.role == "tool" and message.text == text for message in messages)


def test_a_restored_result_stays_whole_over_the_next_summary():
    acting = Acting({"a": "line of a\n" * 60}, settings=Settings(on=False))
    acting.call("read_file", path="a")
    acting.call("shell", command="make")
    acting.call("read_file", path="a")
    for number in range(5):
        made = acting.compact(LIMITS, asked=True)
        assert made
        acting.call("glob", pattern=f"{number}")
    for _ in range(2):
        acting.user("again " * 900)
        acting.call("read_file", path="a")
        acting.compact(LIMITS, asked=True)
        for body in promised(acting):
            assert stands(original(acting, body), acting.messages())
        newest = [one.body for one in acting.items if one.kind == "tool_result"][-1]
        assert stands(original(acting, newest), acting.messages())


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, min_size=3, max_size=40), CADENCES)
def test_a_stub_is_only_given_while_the_full_result_is_in_the_next_request(
    actions: list[tuple[str, str]], cadence: int | str
):
    acting = world(cadence)
    for number, action in enumerate(actions):
        act(acting, action, number)
        for body in promised(acting):
            assert stands(original(acting, body), acting.messages()), body["output"]


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=40), CADENCES)
def test_some_call_always_makes_progress(
    actions: list[tuple[str, str]], cadence: int | str
):
    acting = world(cadence)
    for number, action in enumerate(actions):
        act(acting, action, number)
    ran = len(acting.ran)
    assert acting.call("glob", pattern="never asked")["ok"]
    acting.files["a"] = "new text\n"
    assert acting.call("read_file", path="a")["output"].startswith("1\tnew text")
    assert len(acting.ran) == ran + 2


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_a_turn_has_at_most_one_event_and_failures_keep_their_text(
    actions: list[tuple[str, str]],
):
    acting = world(1)
    since = 0
    for number, action in enumerate(actions):
        if action[0] == "user":
            since = len(acting.suspected)
        act(acting, action, number)
        assert len(acting.suspected) - since <= 1
    failed = [
        one.body
        for one in acting.items
        if one.kind == "tool_result" and one.body["name"] == "shell"
    ]
    for body in failed:
        if not body["ok"] and code(body) != BLOCKED:
            assert text_of(body).startswith("trace\n")
