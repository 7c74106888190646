"""Input tokens of real requests, as the simulator received them."""

from __future__ import annotations

import json
from typing import Any

from agents.context.tokens import count
from agents.models import Run
from tests.bench.results import Results
from tests.harness.installation import Installation, wait_until
from tests.harness.people import Person

LINES = 200


def tokens(installation: Installation, owner: Person) -> Results:
    """An idle request, and the sum over twelve scripted rounds."""
    results = Results("tokens")
    [idle] = requests_for(installation, owner, "Quickly say hi back.")
    results.add("idle request", input_of(idle), "tokens", "<= 2600 with 794 of rules")
    tools = idle.get("tools", [])
    sizes = {one["function"]["name"]: count(json.dumps(one)) for one in tools}
    results.add("tools declared", len(tools), "", "15")
    results.add("tokens of all tools", sum(sizes.values()), "tokens", "<= 1300")
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        results.add(f"  {name}", size, "tokens")
    prepare(owner)
    played = requests_for(installation, owner, f"[[script: {json.dumps(script())} ]]")
    results.add("requests of the scripted task", len(played))
    total = sum(map(input_of, played))
    results.add("12 rounds, sum of inputs", total, "tokens", "<= 95000")
    results.add("read format over the bare text", read_overhead(played), "%", "<= 12")
    return results


def input_of(request: dict[str, Any]) -> int:
    """Tools and messages as they were sent, in o200k_base."""
    return count(json.dumps(request.get("tools", []), separators=(",", ":"))) + sum(
        count(json.dumps(one, separators=(",", ":"), ensure_ascii=False))
        for one in request["messages"]
    )


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
        for n in range(LINES // 2)
    )
    return "".join(lines)


def prepare(owner: Person) -> None:
    """A small repository; the scripted task reads three of its files."""
    for number in range(30):
        (owner.workspace.root / f"module_{number}.py").write_text(module(number))


def script() -> dict[str, Any]:
    """Three reads, a search, a long command, the same reads and command again."""

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}

    reads = [call("read_file", path=f"module_{n}.py") for n in range(3)]
    command = call("shell", command="seq 1 1100")
    search = call("grep", pattern="berth_1_1")
    steps = [*reads, search, command, *reads, command, command, command]
    return {"steps": [*steps, {"text": "Done."}]}


def read_overhead(played: list[dict[str, Any]]) -> float:
    """How many more tokens a read result has than the file's bare text."""
    results = [one for one in played[-1]["messages"] if one["role"] == "tool"]
    plain = count(module(0))
    return (count(results[0]["content"]) - plain) * 100 / plain
