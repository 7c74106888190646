"""How much of a result a model is shown. The whole is stored; a cap is only a view."""

from __future__ import annotations

MOST_CHARACTERS = 30_000
OUTPUTS = ".tallyroom/outputs/"
_PREFIX = 16  # characters of the sha256 in the virtual path


def output_path(sha256: str) -> str:
    """The virtual path under which `read_file` shows a stored output."""
    return f"{OUTPUTS}{sha256[:_PREFIX]}.txt"


def cap(text: str, sha256: str) -> str:
    """The text, or its head (3/4) and tail (1/4) around one line that points to the rest.

    At most `MOST_CHARACTERS`, the pointer line aside; cut at ends of lines where near.
    """
    if len(text) <= MOST_CHARACTERS:
        return text
    head_end = MOST_CHARACTERS * 3 // 4
    tail_start = len(text) - MOST_CHARACTERS // 4
    cut = text.rfind("\n", head_end - 2_000, head_end)
    head_end = cut if cut > 0 else head_end
    cut = text.find("\n", tail_start, tail_start + 2_000)
    tail_start = cut + 1 if cut > 0 else tail_start
    first_line = text.count("\n", 0, head_end) + 2
    left_out = tail_start - head_end
    pointer = (
        f"[{left_out:,} characters left out; read them with read_file "
        f'path="{output_path(sha256)}" offset={first_line}]'
    )
    return f"{text[:head_end]}\n{pointer}\n{text[tail_start:]}"
