"""A transcript as JSON Lines that anyone can verify without a database.

The first line is the header: conversation, head, public key and signed heads. Each
other line is one entry. Every line is canonical, so no byte of the file can change
unnoticed: what the chain does not cover would stop being canonical.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from workspace import blobs, signing
from workspace.chain import Link, Walk, canonical, check_body
from workspace.errors import BrokenChain, TranscriptError
from workspace.models import Conversation, Entry, HeadSignature
from workspace.transcript import REFERENCE, link_of
from workspace.verification import named_seqs, sign_head, stored_entries

FORMAT = "transcript/1"
LINK_FIELDS: dict[str, tuple[type, ...]] = {
    "seq": (int,),
    "kind": (str,),
    "turn": (str, type(None)),
    "author": (str, type(None)),
    "created_at": (str,),
    "body_digest": (str,),
}
ENTRY_FIELDS: dict[str, tuple[type, ...]] = LINK_FIELDS | {
    "digest": (str,),
    "nonce": (str, type(None)),
    "body": (str, type(None)),
    "content": (str, type(None)),  # of a body that lies in the blob store
}
HEAD_FIELDS: dict[str, tuple[type, ...]] = {
    "seq": (int,),
    "digest": (str,),
    "signature": (str,),
}
HEADER_FIELDS: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "conversation": (str,),
    "public_key": (str,),
    "heads": (list,),
}


class BadExport(TranscriptError):
    """A file that is no export, or no whole one; the message names the line."""


def export(conversation: Conversation) -> Iterator[str]:
    """The lines, each with its line break. Signs the head first."""
    sign_head(conversation)
    heads = [
        {"seq": head.seq, "digest": head.digest, "signature": head.signature}
        for head in HeadSignature.objects.filter(conversation=conversation).order_by(
            "seq"
        )
    ]
    header = {
        "format": FORMAT,
        "conversation": str(conversation.pk),
        "public_key": signing.public_key(),
        "heads": heads,
    }
    yield canonical(header) + "\n"
    last = heads[-1]["seq"] if heads else 0
    for entry in stored_entries(conversation.pk, 0, last):
        yield canonical(_line(conversation.workspace_id, entry)) + "\n"


def _line(workspace_id: UUID, entry: Entry) -> dict[str, Any]:
    stored = entry.stored
    return vars(link_of(entry)) | {
        "digest": entry.digest,
        "nonce": stored.nonce,
        "body": stored.text,
        "content": _content(workspace_id, stored.text),
    }


def _content(workspace_id: UUID, text: str | None) -> str | None:
    reference = json.loads(text).get(REFERENCE) if text else None
    if reference is None:
        return None
    return blobs.get(workspace_id, reference["sha256"]).decode()


@dataclass
class Verdict:
    """What an export that verifies contains."""

    conversation: UUID
    public_key: str
    heads: dict[int, dict[str, Any]]
    entries: int = 0
    erased: set[int] = field(default_factory=set)
    redacted: set[int] = field(default_factory=set)


def check(lines: Iterable[bytes], key: str | None = None) -> Verdict:
    """Verify an export, without a database; raises BadExport or BrokenChain.

    `key` is the public key that must have signed it; without one the file's own is
    used, and the caller shows it to be compared.
    """
    numbered = enumerate(lines, start=1)
    verdict = _header(next(numbered, (1, b"")), key)
    walk = Walk()
    for number, line in numbered:
        _take(verdict, walk, _parsed(number, line, ENTRY_FIELDS))
    verdict.entries = walk.seq
    last = max(verdict.heads, default=0)
    if walk.seq < last:
        raise BrokenChain(
            walk.seq + 1, f"the file ends before it, but its signed head is {last}."
        )
    for seq in sorted(verdict.erased - verdict.redacted):
        raise BrokenChain(seq, "its body was taken out, and no redaction names it.")
    return verdict


def _header(first: tuple[int, bytes], key: str | None) -> Verdict:
    header = _parsed(*first, HEADER_FIELDS)
    if header["format"] != FORMAT:
        raise BadExport(
            f"Line 1 names the format {header['format']!r}, not {FORMAT!r}."
        )
    if key is not None and header["public_key"] != key.lower():
        raise BadExport(
            "The export was signed with another key than the one expected: "
            f"{header['public_key']!r}."
        )
    try:
        conversation = UUID(header["conversation"])
    except ValueError:
        raise BadExport("Line 1 does not name a conversation.") from None
    if str(conversation) != header["conversation"]:
        raise BadExport("Line 1 was changed: it spells the conversation's id anew.")
    heads = [_fields(1, head, HEAD_FIELDS) for head in header["heads"]]
    for head in heads:
        if not signing.is_signed(header["public_key"], conversation, **head):
            raise BrokenChain(head["seq"], "its signature does not match.")
    return Verdict(
        conversation, header["public_key"], {head["seq"]: head for head in heads}
    )


def _take(verdict: Verdict, walk: Walk, entry: dict[str, Any]) -> None:
    """Check one entry against the chain, its body and the signed heads."""
    seq = entry["seq"]
    walk.step(Link(**{name: entry[name] for name in LINK_FIELDS}), entry["digest"])
    _take_body(verdict, entry)
    if seq > max(verdict.heads, default=0):
        raise BrokenChain(seq, "it lies beyond the last signed head.")
    if seq in verdict.heads and verdict.heads[seq]["digest"] != entry["digest"]:
        raise BrokenChain(seq, "its digest is not the one that was signed.")


def _take_body(verdict: Verdict, entry: dict[str, Any]) -> None:
    seq, nonce, text = entry["seq"], entry["nonce"], entry["body"]
    if nonce is None or text is None:
        if nonce != text or entry["content"] is not None:
            raise BrokenChain(seq, "its body is there only in part.")
        verdict.erased.add(seq)
        return
    check_body(seq, nonce, text, entry["body_digest"])
    if entry["kind"] == Entry.Kind.REDACTION:
        verdict.redacted.update(named_seqs(text))
    _check_content(seq, text, entry["content"])


def _check_content(seq: int, text: str, content: str | None) -> None:
    """A large body must come along, and be the one that its reference names."""
    try:
        reference = json.loads(text).get(REFERENCE)
        wanted = reference["sha256"] if reference else None
    except (ValueError, TypeError, AttributeError, KeyError):
        raise BrokenChain(seq, "its body is not a JSON object.") from None
    found = None if content is None else blobs.name_of(content.encode())
    if found != wanted:
        raise BrokenChain(seq, "its large body is missing or has been changed.")


def _parsed(number: int, line: bytes, fields: dict[str, Any]) -> dict[str, Any]:
    try:
        text = line.decode()
        value = json.loads(text)
        whole = canonical(value) + "\n" == text
    except (ValueError, RecursionError):
        raise BadExport(
            f"Line {number} is empty, cut off or damaged: it is not JSON."
        ) from None
    if not whole:
        raise BadExport(f"Line {number} is cut off or was edited.")
    return _fields(number, value, fields)


def _fields(number: int, value: Any, fields: dict[str, Any]) -> dict[str, Any]:
    if type(value) is not dict or value.keys() != fields.keys():
        raise BadExport(
            f"Line {number} must have exactly these fields: {', '.join(fields)}."
        )
    for name, types in fields.items():
        if type(value[name]) not in types:
            raise BadExport(f"Line {number}: {name!r} has the wrong type.")
    return value
