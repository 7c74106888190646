"""What to do when a model service refuses the schema of a declared tool."""

from __future__ import annotations

import re
from collections.abc import Collection

#: How services speak of it: JSON schemas, and the grammars that local ones make of them.
_SPEAKS_OF_SCHEMAS = re.compile(r"schema|grammar|function|tool", re.I)
_WORDS = re.compile(r"[\w-]+")


def advice(message: str, declared: Collection[str], preloaded: Collection[str]) -> str:
    """The tool and the setting that end the refusal; "" when it is about neither."""
    if not _SPEAKS_OF_SCHEMAS.search(message):
        return ""
    words = {*_WORDS.findall(message)}
    named = next((name for name in declared if name in words), "")
    if named and named not in preloaded:
        return (
            f"Leave the tool {named} out with tools.disabled, and begin a new "
            "conversation."
        )
    if not preloaded:
        return ""
    which = f"The tool {named}" if named else f"{len(preloaded)} tools"
    verb = "was" if named or len(preloaded) == 1 else "were"
    return (
        f"{which} {verb} preloaded: set tools.toolSearch.threshold to 0 and begin a new "
        "conversation; what is deferred is then found by searching."
    )
