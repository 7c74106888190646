"""The tour's sentences, in English and Korean, and what they quote from results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agents.providers.sse import parse_json
from agents.simulator.intents import Intent
from agents.simulator.steps import Call

_LINE_NUMBER = re.compile(r"^\s*\d+(?:\t|→|\||: ?| {2})", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"error \w+: (.+)")
_UNCHANGED = "unchanged since your earlier read_file of "
_EXIT = re.compile(r"\[exit (\d+)\]")
_MAX_QUOTED = 20  # lines of a result that are repeated
_MAX_SENTENCE = 240  # characters


@dataclass(frozen=True, slots=True)
class Telling:
    """Picks the language."""

    is_korean: bool

    def pick(self, english: str, korean: str) -> str:
        return korean if self.is_korean else english

    def greeting(self) -> str:
        return self.pick(
            "Hello! I am the built-in simulator: no language model is answering, but "
            "the tools and the sandbox here are real. Try “read README.md and tell me "
            "what is in it, then list the files”.",
            "안녕하세요! 저는 내장 시뮬레이터입니다. 언어 모델이 답하는 것은 아니지만 "
            "도구와 샌드박스는 진짜입니다. “README.md를 읽고 무엇이 들어 있는지 알려 "
            "준 다음 파일 목록을 보여 줘”라고 해 보세요.",
        )

    def help(self) -> str:
        return self.pick(
            "No language model is answering here: I am the built-in simulator and "
            "follow a few fixed rules. An administrator can connect a real model under "
            "Settings → Endpoints. Until then you can try:\n\n"
            "- read README.md\n- list the files\n- run `echo hello`\n"
            "- write notes.txt with “remember the milk”\n- search tools for weather\n"
            "- ask me which colour I like\n- delegate counting the files\n\n"
            "Several of them in one message work too.",
            "여기서는 언어 모델이 답하지 않습니다. 저는 정해진 규칙을 따르는 내장 "
            "시뮬레이터입니다. 관리자가 설정 → 엔드포인트에서 실제 모델을 연결할 수 "
            "있습니다. 그때까지 이렇게 해 보세요.\n\n"
            "- README.md를 읽어 줘\n- 파일 목록을 보여 줘\n- `echo hello` 실행해 줘\n"
            "- notes.txt에 “우유 사기”라고 써 줘\n- 날씨 도구를 찾아 줘\n"
            "- 나에게 무엇을 고를지 물어봐\n\n한 번에 여러 가지를 부탁해도 됩니다.",
        )

    def cannot(self, tools: list[str]) -> str:
        names = ", ".join(f"`{tool}`" for tool in dict.fromkeys(tools))
        return self.pick(
            f"That needs {names}, which this agent does not have here. (I am the "
            "built-in simulator; no language model is answering.)",
            f"그 일에는 {names} 도구가 필요하지만 이 에이전트에는 없습니다. (저는 내장 "
            "시뮬레이터이며 언어 모델이 답하는 것이 아닙니다.)",
        )

    def announce(self, intents: list[Intent]) -> str:
        sentences = [self._announce(intent) for intent in intents]
        return " ".join(sentences)

    def _announce(self, intent: Intent) -> str:
        arguments = intent.arguments
        if intent.tool == "read_file":
            path = arguments["path"]
            return self.pick(f"I'll read {path}.", f"{path} 파일을 읽겠습니다.")
        if intent.tool == "write_file":
            path = arguments["path"]
            return self.pick(f"I'll write {path}.", f"{path} 파일을 쓰겠습니다.")
        if intent.tool == "shell":
            command = arguments["command"]
            return self.pick(
                f"I'll run `{command}` in the sandbox.",
                f"샌드박스에서 `{command}` 명령을 실행하겠습니다.",
            )
        return self.pick(
            f"I'll use {intent.tool}.", f"{intent.tool} 도구를 쓰겠습니다."
        )


def report(
    telling: Telling, answered: list[tuple[Call, str]], missing: list[str]
) -> str:
    """What each call came to, in the order of the calls."""
    parts = [_tell(telling, call, result) for call, result in answered]
    if missing:
        parts.append(telling.cannot(missing))
    return "\n\n".join(parts)


def _tell(telling: Telling, call: Call, result: str) -> str:
    arguments = _arguments(call)
    if call.name == "read_file":
        return _tell_file(telling, str(arguments.get("path", "")), result)
    if call.name == "shell":
        return _tell_command(telling, str(arguments.get("command", "")), result)
    if call.name == "list_dir":
        return _tell_listing(telling, result)
    if call.name == "ask_user":
        said = telling.pick("Your answer reached me:", "답을 받았습니다:")
        return f"{said}\n\n{quote(result)}"
    said = telling.pick(f"`{call.name}` says:", f"`{call.name}` 도구의 결과:")
    return f"{said}\n\n{quote(result)}"


def _tell_file(telling: Telling, path: str, result: str) -> str:
    if refused := _ERROR.match(result):
        return telling.pick(
            f"**{path}** could not be read: {refused[1]}",
            f"**{path}** 파일을 읽지 못했습니다: {refused[1]}",
        )
    if result.startswith(_UNCHANGED):
        return telling.pick(
            f"**{path}** has not changed since it was read before.",
            f"**{path}** 파일은 앞서 읽은 뒤로 바뀌지 않았습니다.",
        )
    text = _LINE_NUMBER.sub("", result)
    prose = _FENCE.sub("", text)
    headings = _HEADING.findall(prose)
    lines = [line.strip() for line in prose.splitlines()]
    first = next((line for line in lines if line[:1].isalnum()), "")[:_MAX_SENTENCE]
    count = len(text.splitlines())
    told = telling.pick(
        f"**{path}** has {count} {'line' if count == 1 else 'lines'}.",
        f"**{path}** 파일은 {count}줄입니다.",
    )
    if headings:
        names = ", ".join(f"“{heading}”" for heading in headings[:12])
        told += telling.pick(f" Its headings are {names}.", f" 제목은 {names}입니다.")
    if first:
        told += telling.pick(f" It begins: “{first}”", f" 이렇게 시작합니다: “{first}”")
    return told


def _tell_command(telling: Telling, command: str, result: str) -> str:
    exited = _EXIT.findall(result)
    output = _EXIT.sub("", result).strip()
    if command == "ls -1p" and (not exited or exited[-1] == "0"):
        return _tell_listing(telling, output)
    told = telling.pick(f"`{command}` printed:", f"`{command}` 명령의 출력:")
    if exited and exited[-1] != "0":
        told = telling.pick(
            f"`{command}` failed with exit status {exited[-1]}:",
            f"`{command}` 명령이 종료 상태 {exited[-1]}(으)로 실패했습니다:",
        )
    return f"{told}\n\n{quote(output)}"


def _tell_listing(telling: Telling, result: str) -> str:
    names = [line.strip() for line in result.splitlines() if line.strip()]
    folders = sum(name.endswith("/") for name in names)
    files = len(names) - folders
    told = telling.pick(
        f"The folder holds {files} {'file' if files == 1 else 'files'} and "
        f"{folders} {'folder' if folders == 1 else 'folders'}:",
        f"이 폴더에는 파일 {files}개와 폴더 {folders}개가 있습니다:",
    )
    return f"{told}\n\n{quote(result)}"


def quote(text: str) -> str:
    """The first lines of a result as a code block that its own fences cannot end."""
    lines = text.strip().splitlines()
    shown = "\n".join(lines[:_MAX_QUOTED]) or "(nothing)"
    if len(lines) > _MAX_QUOTED:
        shown += f"\n… ({len(lines) - _MAX_QUOTED} more lines)"
    fence = "```" if "```" not in shown else "~~~~~~"
    return f"{fence}\n{shown}\n{fence}"


def _arguments(call: Call) -> dict[str, Any]:
    try:
        arguments = parse_json(call.arguments.encode())
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
