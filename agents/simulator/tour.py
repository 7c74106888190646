"""What the simulator answers when nobody wrote a script.

It follows rules, reads the real results and quotes them, so that a newcomer sees every
mechanism at work. It never pretends to be a language model.
"""

from __future__ import annotations

import re

from agents.simulator.conversation import Conversation, Said
from agents.simulator.faults import without_markers
from agents.simulator.intents import as_call, in_parallel, intents
from agents.simulator.steps import Call, Step
from agents.simulator.telling import Telling, report

_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|evening|afternoon)|thanks?(?: you)?"
    r"|안녕\w*|반가\w*|고마\w*|감사\w*)\b|\bsay hi\b",
    re.IGNORECASE,
)
# A person who did not begin the conversation is named before what they say.
_SPEAKER = re.compile(r"\[[^\]\n]+\] \S")
# The startup context that opens every conversation; its index names tools.
_STARTUP = re.compile(r"Workspace: .*\. System: ")
_ATTACHED = re.compile(
    r"<attached name=.*?</attached>|<file path=.*?</file>", re.DOTALL
)
_NOTICES = (
    "(images from ",
    "Schemas of tools that you loaded before the compaction",
    "Loaded before the compaction",
)
_HANGUL = re.compile(r"[\uac00-\ud7a3]")


def tour_step(conversation: Conversation) -> Step:
    """The next answer: a call that is still to be made, or the report on all of them."""
    asked, since = _task(conversation.messages)
    telling = Telling(is_korean=bool(_HANGUL.search(asked)))
    wanted = intents(asked, conversation.tools)
    plan = [intent for intent in wanted if intent.tool in conversation.tools]
    missing = [
        intent.tool for intent in wanted if intent.tool not in conversation.tools
    ]
    made = [call for said in since for call in said.calls]
    left = plan[len(made) :]
    if left:
        now = left if in_parallel(asked) else left[:1]
        return Step(text=telling.announce(now), calls=tuple(map(as_call, now)))
    if made:
        return Step(text=report(telling, _with_results(made, since), missing))
    return Step(text=_plain_answer(telling, asked, missing))


def _task(messages: tuple[Said, ...]) -> tuple[str, list[Said]]:
    """What people asked since the last finished answer, and all that was said since."""
    start = 0
    for number, said in enumerate(messages):
        if said.role == "assistant" and not said.calls:
            start = number + 1
        elif number and _follows_a_stop(messages[number - 1], said):
            start = number
    since = list(messages[start:])
    asked = [s.text for s in since if s.role == "user" and not _is_notice(s.text)]
    # What a file says is no wish of who attached it.
    return without_markers(_ATTACHED.sub("", "\n".join(asked))), since


def _follows_a_stop(before: Said, said: Said) -> bool:
    """Whether a person stopped the turn before and now asks for something else."""
    is_cut = before.role == "tool" and "error interrupted: " in before.text
    return is_cut and said.role == "user" and not _is_notice(said.text)


def _is_notice(text: str) -> bool:
    """Whether the workspace, not a person, says this."""
    text = text.lstrip()
    if _STARTUP.match(text) or text.startswith(_NOTICES):
        return True
    if not text.startswith(("<", "[")) or text.startswith("[["):
        return False
    return not _SPEAKER.match(text)


def _with_results(calls: list[Call], since: list[Said]) -> list[tuple[Call, str]]:
    """Calls and results by their order: ids may come again in a later round."""
    results: dict[str, list[str]] = {}
    for said in since:
        if said.role == "tool":
            results.setdefault(said.call_id, []).append(said.text)
    return [(call, results[call.call_id].pop(0)) for call in calls]


def _plain_answer(telling: Telling, asked: str, missing: list[str]) -> str:
    if missing:
        return telling.cannot(missing)
    return telling.greeting() if _GREETING.search(asked) else telling.help()
