"""Token counts, offline: the vocabularies ship with the `bpe-openai` wheel.

tiktoken reads a vocabulary from its cache folder when a file of the right name and hash
lies there; this module puts it there first, so counting never asks the network.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODINGS = ("o200k_base", "cl100k_base")

#: Where tiktoken would fetch a vocabulary; its sha1 names the cached file.
_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


@lru_cache(maxsize=len(ENCODINGS))
def encoding(name: str) -> Encoding:
    """The encoding of that name. Raises ValueError for one that does not ship."""
    if name not in ENCODINGS:
        raise ValueError(f"Unknown encoding {name!r}; these ship: {ENCODINGS}.")
    import tiktoken

    os.environ["TIKTOKEN_CACHE_DIR"] = str(_cached_vocabulary(name).parent)
    return tiktoken.get_encoding(name)


def _cached_vocabulary(name: str) -> Path:
    """The unpacked vocabulary in var/; written anew when it is not whole."""
    package = importlib.util.find_spec("bpe_openai")  # importing it would load both
    assert package, "a requirement"
    assert package.origin, "it is a package of files"
    packed = Path(package.origin).parent / "data" / f"{name}.tiktoken.gz"
    data = gzip.decompress(packed.read_bytes())
    key = hashlib.sha1(_SOURCE.format(name).encode(), usedforsecurity=False)
    path = Path(settings.VAR_DIR) / "vocabularies" / key.hexdigest()
    if not path.exists() or path.stat().st_size != len(data):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(path)
    return path


#: Counts that are remembered, by encoding and SHA-256: the texts themselves may be long.
_REMEMBERED = 65_536
_known: dict[tuple[str, bytes], int] = {}


def count(text: str, encoding_name: str = "o200k_base") -> int:
    """Tokens of a text. Special-token text counts as ordinary characters."""
    data = text.encode("utf-8", "surrogatepass")
    key = encoding_name, hashlib.sha256(data).digest()
    known = _known.get(key)
    if known is None:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        known = len(encoding(encoding_name).encode_ordinary(text))
        _known[key] = known
    return known
