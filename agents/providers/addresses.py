"""Which network addresses a URL that somebody typed may lead to.

A host is resolved once, every address it has must be permitted, and the connection
goes to one of exactly those addresses: a name that changes its mind between the check
and the connection (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds hand out credentials; never reachable unless the host itself is listed.
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(Exception):
    """The URL may not be visited; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """What is permitted beyond the public internet.

    `allow_hosts` holds names as typed in URLs, `host` or `host:port`, and permits
    whatever they resolve to. `allow_private` permits private and loopback addresses of
    every host, but neither link-local nor metadata addresses.
    """

    allow_hosts: frozenset[str] = frozenset()
    allow_private: bool = False

    def lists(self, host: str, port: int) -> bool:
        return not self.allow_hosts.isdisjoint({host, f"{host}:{port}"})


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a permitted URL that a connection needs."""

    scheme: str
    host: str
    port: int


def parse_target(url: str) -> Target:
    """Scheme, host and port of an http(s) URL; raises `AddressRefused`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefused(f"{url!r} is not a usable address: {error}.") from error
    if parts.scheme not in ("http", "https"):
        raise AddressRefused("Only http:// and https:// addresses can be used.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("An address must not contain a user name or password.")
    host = (parts.hostname or "").rstrip(".").lower()
    if not host:
        raise AddressRefused("The address names no host, like https://api.example.com.")
    _refuse_disguise(host)
    return Target(parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


def resolve(host: str, port: int, policy: AddressPolicy) -> list[tuple[str, int]]:
    """The checked addresses of a host, to connect to; raises `AddressRefused`.

    Raises `OSError` when the name cannot be resolved.
    """
    host = host.rstrip(".").lower()
    _refuse_disguise(host)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if not policy.lists(host, port):
        for text in addresses:
            _check(host, ipaddress.ip_address(text.split("%")[0]), policy)
    return [(text, port) for text in addresses]


def _refuse_disguise(host: str) -> None:
    if _is_disguised_number(host):
        raise AddressRefused(
            f"{host!r} is an IP address in disguise. Write it as four decimal numbers."
        )


def _is_disguised_number(host: str) -> bool:
    """Whether C libraries read an IP address where people see something else."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return False
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeError):
        return False
    return True


def _check(host: str, address: Address, policy: AddressPolicy) -> None:
    inner = _unwrap(address)
    if inner in METADATA or inner.is_link_local:
        raise AddressRefused(
            f"{host!r} leads to {inner}, an address for machine credentials or the "
            "local link. It is never contacted unless an administrator lists the host."
        )
    if inner.is_multicast or inner.is_unspecified:
        raise AddressRefused(f"{host!r} leads to {inner}, which no server can have.")
    if not inner.is_global and not policy.allow_private:
        raise AddressRefused(
            f"{host!r} leads to the private address {inner}. An administrator can "
            "permit it by adding the host to the list of allowed hosts."
        )


def _unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 address carries inside, if it does."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if address.sixtofour:
        return address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or int(address) >> 32 == 0 and int(address) > 1:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
