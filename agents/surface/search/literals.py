"""Requests name a thing where tools name its kind: a path where a tool says "file".

The words inside an address or path are a value, not what is asked for; they would only
lead to tools that happen to share them.
"""

from __future__ import annotations

import re

_URL = re.compile(r"\b(?:https?://|www\.)([^\s/?#]{1,200})\S*", re.IGNORECASE)
_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}")
_PATH = re.compile(r"(?<!\S)['\"`(]?(?:~|\.{1,2})?/[\w.@+-][^\s'\"`)]*")
_FILE = re.compile(r"\b[\w-]{1,100}\.[a-z][a-z0-9]{1,4}\b(?![.\w(])")
_SUM = re.compile(r"\d\)*\s?[-+*/^]\s?\(*\d+\)*\s?[-+*/^=]")


def kinds_for_literals(text: str) -> str:
    """The text with its addresses and paths replaced by words for what they are."""
    text = _URL.sub(r" \1 url web page ", text)
    text = _EMAIL.sub(" email ", text)
    text = _PATH.sub(_file, text)
    if _FILE.search(text):
        text += " file"
    return f"{text} calculate" if _SUM.search(text) else text


def _file(path: re.Match[str]) -> str:
    last = path[0].rstrip(".,;:!?/").rpartition("/")[2]
    ending = last.rpartition(".")[2] if "." in last else ""
    return f" {ending} file "
