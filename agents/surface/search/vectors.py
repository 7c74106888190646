"""Nearness in meaning, from static word vectors: for English, and only if installed.

The vectors come inside the wheel of `wordllama`, whose own loader is not used: it may
download, and imports more than the table of vectors needs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agents.surface.search.words import STOP_WORDS, parts

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_REMEMBERED = 50_000  # words whose tokens are kept, some 5 MB
_loading = threading.Lock()


class Vectors:
    """A text's vector is the mean of its tokens' vectors, one unit long."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._table = load_file(folder / _WEIGHTS)["embedding.weight"]
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._known: dict[str, list[int]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text; a text without words gives zeros, near to nothing."""
        rows = np.zeros((len(texts), self._table.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            tokens = [
                token
                for part in parts(text)
                if (word := part.casefold()) not in STOP_WORDS
                for token in self._tokens(word)
            ]
            if tokens:
                row[:] = self._table[tokens].mean(axis=0, dtype=np.float32)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, norms, out=rows, where=norms > 0)
        return rows

    def _tokens(self, word: str) -> list[int]:
        known = self._known.get(word)
        if known is None:
            known = list(self._tokenizer.encode(word, add_special_tokens=False).ids)
            if len(self._known) < _REMEMBERED:
                self._known[word] = known
        return known


def vectors() -> Vectors | None:
    """The table of this process, read at the first call; None where it is missing."""
    with _loading:
        return _read()


@cache
def _read() -> Vectors | None:
    if find_spec("tokenizers") is None or find_spec("safetensors") is None:
        return None
    spec = find_spec("wordllama")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder)
        if (path / _WEIGHTS).is_file() and (path / _TOKENIZER).is_file():
            return Vectors(path)
    return None
