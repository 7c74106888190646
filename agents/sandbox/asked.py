"""What a client asks of the egress proxy, read strictly: the ambiguous is refused.

A request that two readers could understand differently is how one gets past a proxy,
so nothing is passed on as it came: the head is written anew from what was understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from agents.providers.addresses import AddressRefused, parse_target

CHUNKED = -1  # as a body's length: it says itself when it ends
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_FIRST = re.compile(rf"({_NAME}{{1,32}}) ([\x21-\x7e]+) HTTP/1\.[01]")
_HEADER = re.compile(rf"({_NAME}{{1,256}}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})")
_HOST = re.compile(r"[0-9a-z._-]+|[0-9a-f:.]*:[0-9a-f:.]*")
_LONGEST = 253  # characters of a host's name
_LENGTH = re.compile(r"[0-9]{1,15}")
# They speak of one connection, not of the message; the next connection has its own.
_PER_CONNECTION = frozenset(
    (  # noqa: SIM905 - words are easier to read than a list of strings
        "connection keep-alive proxy-authenticate proxy-authorization proxy-connection "
        "te trailer upgrade host expect content-length transfer-encoding"
    ).split()
)


class BadRequest(Exception):
    """The request cannot be understood in exactly one way."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A host to reach, and what to tell it; a tunnel (CONNECT) has an empty `head`.

    `length` counts the bytes of the body that follows. `expects` is whether the client
    waits for a go-ahead before it sends that.
    """

    method: str
    host: str
    port: int
    head: bytes = b""
    length: int = 0
    expects: bool = False


def parse(head: bytes) -> Asked:
    """Read a request's head, without the empty line that ends it.

    Raises `BadRequest`, or `AddressRefused` for an address of a wrong kind.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    start = _FIRST.fullmatch(first)
    if start is None:
        raise BadRequest("The request line is not one of HTTP/1.1.")
    method, target = start.groups()
    headers = [_header(line) for line in lines]
    length = _length(headers)
    if method == "CONNECT":
        if length:
            raise BadRequest("CONNECT has no body.")
        return Asked(method, *_authority(target))
    return _plain(method, target, headers, length)


def _header(line: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise BadRequest("A header line is malformed or continues the one before.")
    return found[1], found[2].strip(" \t")


def _values(headers: list[tuple[str, str]], name: str) -> list[str]:
    return [value for other, value in headers if other.lower() == name]


def _length(headers: list[tuple[str, str]]) -> int:
    """How long the body is; two answers to that are none."""
    lengths = _values(headers, "content-length")
    codings = _values(headers, "transfer-encoding")
    if codings:
        if lengths or [coding.lower() for coding in codings] != ["chunked"]:
            raise BadRequest("The length of the body is said twice or unclearly.")
        return CHUNKED
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadRequest("Content-Length must be one number.")
    return int(lengths[0])


def _authority(target: str) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(target)
    if found is None:
        raise BadRequest("CONNECT takes a host and a port, like example.com:443.")
    host = (found[1] or found[2]).rstrip(".").lower()
    port = int(found[3])
    if not host or len(host) > _LONGEST or not 0 < port < 65_536:
        raise BadRequest(f"{target!r} is not a host and a port.")
    return host, port


def _plain(
    method: str, target: str, headers: list[tuple[str, str]], length: int
) -> Asked:
    """A request with the whole address in its first line, as proxies get them."""
    if not target.lower().startswith("http://") or "#" in target:
        raise BadRequest(
            "A proxy takes the whole http:// address, and CONNECT for https://."
        )
    where = parse_target(target)
    if len(where.host) > _LONGEST or not _HOST.fullmatch(where.host):
        raise AddressRefused(f"{where.host!r} is not the name of a host.")
    if len(_values(headers, "host")) > 1:
        raise BadRequest("There is more than one Host header.")
    named = {
        name.strip().lower()
        for value in _values(headers, "connection")
        for name in value.split(",")
    }
    kept = [
        f"{name}: {value}"
        for name, value in headers
        if name.lower() not in _PER_CONNECTION | named
    ]
    if length == CHUNKED:
        kept.append("Transfer-Encoding: chunked")
    elif length or _values(headers, "content-length"):
        kept.append(f"Content-Length: {length}")
    parts = urlsplit(target)
    origin = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"{method} {origin} HTTP/1.1",
        f"Host: {_named(where.host, where.port)}",
        *kept,
        "Connection: close",
    ]
    return Asked(
        method,
        where.host,
        where.port,
        "\r\n".join([*lines, "", ""]).encode("latin-1"),
        length,
        bool(_values(headers, "expect")),
    )


def _named(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == 80 else f"{shown}:{port}"
