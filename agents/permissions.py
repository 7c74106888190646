"""May this call run? One function answers, with the rule that decided.

Rules are `Tool` or `Tool(specifier)` in the lists allow, ask and deny of a workspace;
deny beats ask beats allow, and any rule beats the approval level. A specifier is an
argument prefix for `shell` (words, after parsing), a path glob for file tools, and the
exact main argument otherwise.
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import posixpath
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents import commands
from agents.sandbox import HOME
from agents.surface.modes import PLAN_WRITERS, PLANS
from agents.tools.base import Tool
from agents.tools.registry import resolve
from workspace.errors import BadInput

logger = logging.getLogger(__name__)

Answer = Literal["allow", "ask", "deny"]
LISTS: tuple[Answer, ...] = ("deny", "ask", "allow")

#: What makes a command line more than one simple command, or not what it seems.
_SHELL_SYNTAX = re.compile(r"[;&|<>`$(){}\n\r\\*?\[\]~#!]|^\s*\w+=")

_RULE = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<specifier>.+)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, the rule that gave it, and why a person is asked: a sentence."""

    answer: Answer
    rule: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"answer": self.answer, "rule": self.rule, "why": self.why}


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule; an empty specifier means the whole tool."""

    tool: str
    specifier: str
    text: str


def parse_rule(text: str) -> Rule:
    """Read a rule. Raises BadInput with a sentence for one that can never match."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise BadInput(
            f"{text!r} is not a rule. Write a tool's name, or name(specifier), such as "
            "shell(git status) or write_file(docs/**)."
        )
    name = match["tool"]
    tool = resolve(name)
    if tool is None and not name.startswith("mcp__"):
        raise BadInput(f"The rule {text!r} names a tool that does not exist: {name!r}.")
    specifier = match["specifier"] or ""
    if tool and tool.name == "shell" and specifier:
        _require_words(specifier, text)
    return Rule(tool.name if tool else name, specifier, text.strip())


def _require_words(specifier: str, text: str) -> None:
    try:
        shlex.split(specifier)
    except ValueError:
        raise BadInput(
            f"The rule {text!r} has a quote that is never closed. Close it, or leave "
            "quotes out."
        ) from None


def whole_tool_denials(rules: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Tool names that a deny rule without specifier takes away, with that rule."""
    parsed = known_rules(rules.get("deny", ()))
    return {rule.tool: rule.text for rule in parsed if not rule.specifier}


def known_rules(texts: Iterable[str]) -> Iterator[Rule]:
    """Stored rules, but for those about a tool that this version does not have."""
    for text in texts:
        try:
            yield parse_rule(text)
        except BadInput as error:
            logger.warning("A stored rule is left out. %s", error.message)


def decide(
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    level: str,
    rules: Mapping[str, Sequence[str]],
    confined: bool,
    granted: Sequence[str] = (),
) -> Decision:
    """Allow, ask or deny one call.

    `confined`: the sandbox holds and has no network. `granted` are allow rules that
    people gave for this conversation alone.
    """
    for answer in LISTS:
        texts = [*rules.get(answer, ()), *(granted if answer == "allow" else ())]
        for rule in known_rules(texts):
            if _matches(rule, tool, arguments, every_part=answer == "allow"):
                return Decision(
                    answer, rule.text, f"The rule {rule.text} says: {answer}."
                )
    if level == "plan" and writes_plan(tool, arguments):
        return Decision("allow", "plan files", "It writes a plan, and no other file.")
    decision = _by_level(tool, level, confined)
    if decision.answer == "allow" and _may_hide(tool, arguments, rules):
        return Decision(
            "ask",
            "a program without a name",
            "The shell alone knows which program this runs, and rules here name some.",
        )
    return decision


def _may_hide(
    tool: Tool, arguments: Mapping[str, Any], rules: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a command may run what a deny or ask rule names, unseen by it."""
    if tool.name != "shell":
        return False
    texts = (*rules.get("deny", ()), *rules.get("ask", ()))
    named = any(rule.tool == "shell" and rule.specifier for rule in known_rules(texts))
    return named and commands.hides_a_program(str(arguments.get("command", "")))


def writes_plan(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Whether a call writes a plan file: Markdown, in the folder of plans itself."""
    if tool.name not in PLAN_WRITERS:
        return False
    folder, _slash, name = _plain_path(str(arguments.get("path", ""))).rpartition("/")
    return f"{folder}/" == PLANS and name.endswith(".md") and name != ".md"


def _by_level(tool: Tool, level: str, confined: bool) -> Decision:
    rule = f"level {level}"
    if tool.tag in ("read", "delegate"):
        return Decision("allow", rule, "It only reads.")
    if level == "plan":
        return Decision(
            "deny", rule, "The approval level is plan: nothing may be changed."
        )
    if level == "auto":
        answer: Answer = "ask" if tool.tag == "config" else "allow"
        return Decision(answer, rule, f"The level auto: {tool.tag} is {answer}.")
    if tool.tag == "write":
        return Decision("allow", rule, "It changes files of this workspace only.")
    if tool.tag == "exec" and confined:
        return Decision("allow", rule, "The sandbox confines it, without network.")
    return Decision("ask", rule, _why_asked(tool))


def _why_asked(tool: Tool) -> str:
    reasons = {
        "exec": "It runs a program outside a sandbox, or with network access.",
        "network": "It reaches the network.",
        "send": "It sends something to others.",
        "config": "It changes the configuration.",
    }
    return reasons[tool.tag]


def _matches(
    rule: Rule, tool: Tool, arguments: Mapping[str, Any], *, every_part: bool
) -> bool:
    if rule.tool != tool.name:
        return False
    if not rule.specifier:
        return True
    value = str(arguments.get(tool.main_argument, ""))
    if tool.name == "shell":
        return _command_matches(value, rule.specifier, strict=every_part)
    if _names_path(tool):
        return fnmatch.fnmatchcase(_plain_path(value), _plain_path(rule.specifier))
    return value == rule.specifier


def _names_path(tool: Tool) -> bool:
    """Whether a tool's main argument is a path, so that its rules are globs."""
    return tool.main_argument in tool.path_arguments


def _command_matches(command: str, prefix: str, *, strict: bool) -> bool:
    """Whether a command begins with the rule's words.

    An allow rule (`strict`) covers one simple command only: anything a shell would
    expand, chain or redirect does not match. Ask and deny rules look at every part.
    """
    wanted = shlex.split(prefix)
    if not strict:
        return commands.runs(command, wanted)
    if _SHELL_SYNTAX.search(command):
        return False
    return commands.words_of(command)[: len(wanted)] == wanted


def _plain_path(path: str) -> str:
    """A path relative to the workspace, in its one spelling; "" is the workspace."""
    if path == HOME or path.startswith(f"{HOME}/"):
        path = path[len(HOME) :]
    plain = posixpath.normpath(f"/{path}").lstrip("/")
    return unicodedata.normalize("NFC", plain)


def rule_for(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The narrow allow rule that "always" writes for a call.

    For `shell` the program and its sub-command, or the whole command where the program
    runs others. Raises BadInput for what no rule can cover without covering more.
    """
    value = str(arguments.get(tool.main_argument, ""))
    if tool.name == "shell":
        return f"shell({_prefix_for(value)})"
    if _names_path(tool) and value:
        return f"{tool.name}({glob.escape(_plain_path(value)) or '.'})"
    if not value and tool.main_argument and tool.tag != "read":
        raise BadInput(
            f"This call of {tool.name} names nothing, so a rule would cover every "
            "call. Allow it once."
        )
    return f"{tool.name}({value})" if value else tool.name


def _prefix_for(command: str) -> str:
    words = commands.words_of(command)
    if _SHELL_SYNTAX.search(command) or not words:
        raise BadInput(
            "This command line is more than one simple command, so no rule can cover "
            "it. Allow it once, or for a simpler command."
        )
    if words[0] in commands.LAUNCHERS | commands.INTERPRETERS:
        return shlex.join(words)
    bare = len(words) == 1 or words[1].startswith("-")
    return shlex.join(words[:1] if bare else words[:2])
