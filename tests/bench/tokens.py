"""Input tokens of real requests, as the simulator received them.

Counted is what a model reads: the texts of messages and calls, and the tools as JSON.
The escapes of the JSON around the texts are the transport's; the row "as JSON" has them.
"""

from __future__ import annotations

import json
from typing import Any

from agents.context.tokens import count
from agents.models import Run
from tests.bench.results import Results
from tests.harness.installation import Installation, wait_until
from tests.harness.people import Person

#: Around each message, in chat formats of this encoding: its role and two marks.
FRAME = 4
#: The repository of the task: files, functions in each, tokens of its AGENTS.md.
FILES, FUNCTIONS, RULES = 30, 90, 794


def tokens(installation: Installation, owner: Person) -> Results:
    """An idle request, and the sum over twelve scripted rounds."""
    results = Results("tokens")
    prepare(owner)
    [idle] = requests_for(installation, owner, "Quickly say hi back.")
    results.add("idle request", input_of(idle), "tokens", "<= 2600 with 794 of rules")
    tools = idle.get("tools", [])
    sizes = {one["function"]["name"]: count(json.dumps(one)) for one in tools}
    results.add("tools declared", len(tools), "", "15")
    results.add("tokens of all tools", sum(sizes.values()), "tokens", "<= 1300")
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        results.add(f"  {name}", size, "tokens")
    played = requests_for(installation, owner, f"[[script: {json.dumps(script())} ]]")
    results.add("requests of the scripted task", len(played))
    add_growth(results, [input_of(one) for one in played])
    as_json = sum(count(json.dumps(one, ensure_ascii=False)) for one in played)
    results.add("12 rounds, as JSON", as_json, "tokens")
    results.add("one file, bare", count(module(0)), "tokens")
    results.add("read format over the bare text", read_overhead(played), "%", "<= 12")
    return results


def add_growth(results: Results, inputs: list[int]) -> None:
    """Sums, and what the repeated calls of `script` add to the request behind them."""
    results.add("12 rounds, sum of inputs", sum(inputs), "tokens", "<= 95000")
    results.add("3 re-reads add", inputs[8] - inputs[5], "tokens", "<= 250")
    results.add("3 repeated commands add", inputs[11] - inputs[8], "tokens", "<= 200")


def input_of(request: dict[str, Any]) -> int:
    """What a model reads of a request, in o200k_base."""
    tools = count(json.dumps(request.get("tools", []), separators=(",", ":")))
    return tools + sum(map(message_tokens, request["messages"]))


def message_tokens(message: dict[str, Any]) -> int:
    calls = [one["function"] for one in message.get("tool_calls", ())]
    texts = [message.get("content") or "", *(one["name"] for one in calls)]
    texts += [one["arguments"] for one in calls]
    return FRAME + sum(map(count, texts))


def requests_for(
    installation: Installation, owner: Person, text: str
) -> list[dict[str, Any]]:
    before = max((one["id"] for one in installation.asked()), default=0)
    conversation = owner.converse("tokens")
    owner.say(conversation, text)
    ended = Run.objects.filter(conversation=conversation, state__in=Run.ENDED)
    wait_until(ended.exists, 60, "the run ends")
    return [json.loads(one["body"]) for one in installation.asked(before)]


def module(number: int) -> str:
    lines = (
        f"def berth_{number}_{n}(boats):\n    return [b for b in boats if b > {n}]\n"
        for n in range(FUNCTIONS)
    )
    return "".join(lines)


def prepare(owner: Person) -> None:
    """A small repository with its rules; the scripted task reads three of its files."""
    for number in range(FILES):
        (owner.workspace.root / f"module_{number}.py").write_text(module(number))
    rule = "Keep every function of a berth short, typed and tested.\n"
    (owner.workspace.root / "AGENTS.md").write_text(rule * (RULES // count(rule)))


def script() -> dict[str, Any]:
    """Three reads, a search, a long command, the same reads and command again."""

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}

    reads = [call("read_file", path=f"module_{n}.py") for n in range(3)]
    command = call("shell", command="seq -f 'boat %g is in' 1 341")
    search = call("grep", pattern="berth_1_1")
    steps = [*reads, search, command, *reads, command, command, command]
    return {"steps": [*steps, {"text": "Done."}]}


def read_overhead(played: list[dict[str, Any]]) -> float:
    """How many more tokens a read result has than the file's bare text."""
    results = [one for one in played[-1]["messages"] if one["role"] == "tool"]
    plain = count(module(0))
    return (count(results[0]["content"]) - plain) * 100 / plain
