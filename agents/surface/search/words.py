"""From text to the terms that queries and tools are compared by.

Identifiers are split at `_`, camelCase and digits; English words are stemmed; Korean
words lose their particle and are cut into pairs of syllables, Chinese and Japanese runs
into pairs of characters, since a blank does not end a word there.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

from snowballstemmer.english_stemmer import (  # type: ignore[import-untyped]
    EnglishStemmer,
)

_ACCENTS = re.compile("[\u0300-\u036f]")
_SHORTENED = re.compile(r"(?<=[^\W\d_])['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
_HANGUL = re.compile("[\uac00-\ud7a3]")

# What a request says around its subject.
_STOP = """
a about also am an and any are as at be been but by can could did do does for from give
had has have hello help hey hi how i id if in into is it its ll let like me my need of
on or our please provide shall should so some such tell than thank thanks that the their
them then there these they this those to too us use using want was we were what when
where which who whom will with would you your
"""
STOP_WORDS = frozenset(_STOP.split())

_ENDINGS = """
으로부터 에게서 에서는 에서도 으로는 이라는 까지 부터 에서 에게 으로 처럼 보다 라는 하고
이랑 이나 마다 밖에 은 는 이 가 을 를 의 에 와 과 도 로 만 나 랑
"""
#: Longest first: the first that fits is taken off.
_PARTICLES = tuple(sorted(_ENDINGS.split(), key=lambda ending: (-len(ending), ending)))

_stemmer = EnglishStemmer()
_stemming = threading.Lock()  # the stemmer keeps the word it works on in itself


def normalise(text: str) -> str:
    """Compatible forms made one, accents of Latin letters dropped, syllables composed."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
        text = unicodedata.normalize("NFC", text)
    return _SHORTENED.sub("", text)


def parts(text: str) -> list[str]:
    """The words of a text or identifier, as they are written."""
    return _PARTS.findall(normalise(text))


def plain(text: str) -> str:
    """Letters and digits alone, in lower case: one spelling for all ways to join words."""
    return "".join(parts(text)).casefold()


def is_unspaced(text: str) -> bool:
    """Whether a text holds letters of Korean, Chinese or Japanese."""
    return not text.isascii() and bool(_UNSPACED.search(normalise(text)))


def terms(text: str, *, numbers: bool = True) -> list[str]:
    """The terms of a text in order; repeated where it repeats itself."""
    found: list[str] = []
    for part in parts(text):
        if numbers or not part.isdigit():
            found.extend(_terms_of(part.casefold()))
    return found


def joined(text: str) -> list[str]:
    """Each two neighbouring English words as one: for `pullrequest` and `web page`."""
    words = [part.casefold() for part in parts(text)]
    return [
        stem(left + right)
        for left, right in zip(words, words[1:], strict=False)
        if (left + right).isascii() and (left + right).isalpha()
    ]


@lru_cache(maxsize=50_000)
def _terms_of(word: str) -> tuple[str, ...]:
    if word.isascii():
        return () if word in STOP_WORDS else (stem(word),)
    if _HANGUL.search(word):
        return _korean(word)
    return _pairs(word) if _UNSPACED.search(word) else (word,)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """An English word without its ending, so that its inflections meet."""
    with _stemming:
        return str(_stemmer.stemWord(word))


def _korean(word: str) -> tuple[str, ...]:
    base = word
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) - len(particle) >= 2:
            base = word[: -len(particle)]
            break
    return (base, *_pairs(base)) if len(base) > 2 else (base,)


def _pairs(word: str) -> tuple[str, ...]:
    return tuple(word[at : at + 2] for at in range(len(word) - 1)) or (word,)
