"""What a message asks for, by small rules in English and Korean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.providers.wire import dumps
from agents.simulator.steps import Call

_ENDINGS = (
    "md|txt|rst|py|js|ts|tsx|json|yaml|yml|toml|csv|html|css|sh|c|h|cpp|rs|go|java|kt"
    "|sql|ini|cfg|xml|log|svg|png|jpe?g|webp|gif"
)
# ASCII classes throughout: a Korean particle follows a name without a space.
PATH = (
    rf"(?:(?<![A-Za-z0-9_/.:@-])(?:[A-Za-z0-9_.-]+/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*"
    rf"\.(?:{_ENDINGS})(?![A-Za-z0-9_/-])|(?<![A-Za-z0-9_/.])(?:Makefile|Dockerfile|"
    rf"LICENSE)(?![A-Za-z0-9_/.]))"
)
_QUOTED = r"(?:`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|'([^']+)')"
_COMMANDS = (
    "ls|cat|echo|pwd|python3?|git|make|pytest|date|uname|wc|find|head|tail|grep|sleep"
    "|env|id|whoami|true|false|seq|touch|mkdir|printf|du|df|ps|bash|sh|curl|sort|rm"
)
_UNTIL_NEXT = (
    r"(?=,?\s+(?:and\s+)?then\b|\s+and\s+(?:tell|show|list|read)\b|[;\n]|\.?\s*$|,\s)"
)

_WRITE_EN = re.compile(
    rf"\b(?:write|create|make|save)\b[^.\n]{{0,40}}?({PATH})\s+"
    rf"(?:with|containing|that says|saying)\s+"
    rf"(?:the\s+)?(?:text\s+|content\s+|words?\s+)?(?:{_QUOTED}|(.+?){_UNTIL_NEXT})",
    re.IGNORECASE,
)
_WRITE_KO = re.compile(
    rf"({PATH})[^.\n]{{0,12}}?\s*{_QUOTED}[^.\n]{{0,12}}?(?:쓰|써|작성|만들|저장|넣)"
)
_RUN_EN = re.compile(
    rf"\b(?:run|execute)\s+(?:the\s+)?(?:command\s+)?"
    rf"(?:{_QUOTED}|((?:{_COMMANDS})\b.*?){_UNTIL_NEXT})",
    re.IGNORECASE,
)
_RUN_KO = re.compile(rf"{_QUOTED}[^.\n`]{{0,10}}?(?:실행|돌려)")
_SEARCH_EN = re.compile(
    rf"\b(?:search|find|look)\b(?:\s+(?:the|your|for))*\s+tools?\s+(?:for|about|to)\s+"
    rf"(?:{_QUOTED}|(.+?){_UNTIL_NEXT})",
    re.IGNORECASE,
)
_SEARCH_KO = re.compile(
    r"(?:^|[\s,.])([^\s,.]+(?: [^\s,.]+)?)\s*(?:도구|툴)(?:를|을)?\s*(?:찾|검색)"
)
_LIST_EN = re.compile(
    r"\b(?:list|show|see|count)(?:ing)?\b[^.,;\n]{0,30}?\b(?:files?|folders?|director(?:y|ies))\b"
    r"|\b(?:what|which|how many)\s+files\b",
    re.IGNORECASE,
)
_LIST_KO = re.compile(r"(?:파일|폴더|디렉터리)[^.,\n]{0,10}?(?:목록|나열|보여|세어|몇)")
_ASK_EN = re.compile(r"\bask me\b\s*([^.\n]*)", re.IGNORECASE)
_ASK_KO = re.compile(r"(?:나|저|내)(?:한테|에게|게)[^.\n]{0,30}?(?:물어|질문)")
_DELEGATE_EN = re.compile(
    rf"\bdelegate\b:?\s*(.+?)(?:(?=,?\s+(?:and|then)\s+delegate\b)|{_UNTIL_NEXT})",
    re.IGNORECASE,
)
_DELEGATE_KO = re.compile(r"((?:[^.\n]|\.(?=\w)){1,80}?)(?:을|를)?\s*위임")
_DELEGATE_TO = re.compile(
    r"\s*\b(?:to|by|with)\s+(?:the\s+|an?\s+)?"
    r"(?P<agent>general|explore|reviewer|planner)\b(?:\s+agent)?",
    re.IGNORECASE,
)
_FILE = re.compile(PATH)
_PARALLEL = re.compile(r"\bin parallel\b|\bat (?:the same time|once)\b|동시에", re.I)

_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif")

_MAX_READ = 2_000  # characters of a text; the rules are not made for novels

Schemas = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that is asked: a call to make, at a place in the message."""

    start: int
    end: int
    tool: str
    arguments: dict[str, Any]


def in_parallel(text: str) -> bool:
    return bool(_PARALLEL.search(text))


def intents(text: str, schemas: Schemas) -> list[Intent]:
    """What is asked, in the message's order; earlier rules claim their words first."""
    text, found = text[:_MAX_READ], list[Intent]()
    for pattern, make in _RULES:
        for match in pattern.finditer(text):
            if any(m.start < match.end() and match.start() < m.end for m in found):
                continue
            if made := make(match, schemas):
                found.append(Intent(match.start(), match.end(), *made))
    return _unique(sorted(found, key=lambda intent: intent.start))


def as_call(intent: Intent) -> Call:
    return Call(intent.tool, dumps(intent.arguments).decode())


def _unique(found: list[Intent]) -> list[Intent]:
    seen: list[tuple[str, dict[str, Any]]] = []
    kept = []
    for intent in found:
        what = (intent.tool, intent.arguments)
        if what not in seen:
            seen.append(what)
            kept.append(intent)
    return kept


Made = tuple[str, dict[str, Any]] | None


def _last_group(match: re.Match[str], after: int = 0) -> str:
    groups = match.groups()[after:]
    return next((group.strip() for group in groups if group), "")


def _write(match: re.Match[str], schemas: Schemas) -> Made:
    content = _last_group(match, after=1)
    return "write_file", {"path": match[1], "content": f"{content}\n"}


def _run(match: re.Match[str], schemas: Schemas) -> Made:
    return "shell", {"command": _last_group(match)}


def _list(match: re.Match[str], schemas: Schemas) -> Made:
    """A command shows the sandbox at work; without one, the plain tool serves."""
    if "shell" in schemas:
        return "shell", {"command": "ls -1p"}
    return "list_dir", {"path": "."}


def _read(match: re.Match[str], schemas: Schemas) -> Made:
    path: str = match[0]
    if "view_image" in schemas and path.lower().endswith(_IMAGES):
        return "view_image", {"path": path}
    return "read_file", {"path": path}


def _search(match: re.Match[str], schemas: Schemas) -> Made:
    return "tool_search", {"query": _last_group(match)}


def _delegate(match: re.Match[str], schemas: Schemas) -> Made:
    text = match[1].strip() or match[0]
    if named := _DELEGATE_TO.search(text):
        task = (text[: named.start()] + text[named.end() :]).strip() or text
        return "delegate_task", {"task": task, "agent": named["agent"].lower()}
    return "delegate_task", {"task": text}


def _ask(match: re.Match[str], schemas: Schemas) -> Made:
    is_korean = not match[0].isascii()
    subject = "" if is_korean else (match[1] or "").strip(" ?")
    question = (
        "어떤 것을 고르시겠어요?" if is_korean else f"You wanted me to ask: {subject}?"
    )
    if not is_korean and not subject:
        question = "Which one do you choose?"
    options = ["첫째", "둘째"] if is_korean else ["The first", "The second"]
    schema = schemas.get("ask_user", {})
    return "ask_user", {"questions": [_question(schema, question, options)]}


def _question(schema: dict[str, Any], text: str, options: list[str]) -> dict[str, Any]:
    """A question in the form that the declared schema wants."""
    properties = _items(schema, (schema.get("properties") or {}).get("questions"))
    names = properties or {"question": {}, "options": {}}
    key = next((n for n in ("question", "text", "prompt") if n in names), "question")
    asked: dict[str, Any] = {key: text}
    if "options" in names:
        of_option = _items(schema, names["options"])
        label = next((n for n in ("label", "text", "value") if n in of_option), "")
        asked["options"] = [{label: o} for o in options] if label else options
    if "header" in names:
        asked["header"] = text[:12]
    return asked


def _items(schema: dict[str, Any], listed: dict[str, Any] | None) -> dict[str, Any]:
    """The properties of a list's elements, through a reference if there is one."""
    items = (listed or {}).get("items") or {}
    name = str(items.get("$ref", "")).rpartition("/")[2]
    items = (schema.get("$defs") or {}).get(name, items)
    properties = items.get("properties") or {}
    return dict(properties)


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Schemas], Made]], ...] = (
    (_WRITE_EN, _write),
    (_WRITE_KO, _write),
    (_RUN_EN, _run),
    (_RUN_KO, _run),
    (_SEARCH_EN, _search),
    (_SEARCH_KO, _search),
    (_ASK_EN, _ask),
    (_ASK_KO, _ask),
    (_DELEGATE_EN, _delegate),
    (_DELEGATE_KO, _delegate),
    (_LIST_EN, _list),
    (_LIST_KO, _list),
    (_FILE, _read),
)
