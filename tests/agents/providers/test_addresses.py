"""Where an address that somebody typed may lead."""

import socket

import httpx
import pytest

from agents.errors import ProviderRejected
from agents.interrupts import Interrupt
from agents.providers.addresses import (
    AddressPolicy,
    AddressRefused,
    parse_target,
    resolve,
)
from agents.providers.http import Caller, Service

PUBLIC = AddressPolicy()
PRIVATE = AddressPolicy(allow_private=True)


def leads_to(monkeypatch, *addresses):
    """Make every name resolve to these."""

    def answer(host, port, **kwargs):
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com",
        "//example.com",
        "example.com/v1",
        "http://",
        "http://user:pass@example.com/",
        "http://example.com:99999/",
        "http://[::1",
        "http://2130706433/v1",
        "http://0x7f.1/v1",
    ],
)
def test_only_plain_http_addresses_are_parsed(url):
    with pytest.raises(AddressRefused):
        parse_target(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "10.0.0.7",
        "172.16.3.4",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "0.0.0.0",  # noqa: S104
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "127.1",
    ],
)
def test_private_addresses_are_refused_in_every_spelling(host):
    with pytest.raises(AddressRefused):
        resolve(host, 80, PUBLIC)


def test_public_addresses_are_permitted(monkeypatch):
    leads_to(monkeypatch, "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")
    assert len(resolve("example.com", 443, PUBLIC)) == 2


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch):
    leads_to(monkeypatch, "93.184.216.34", "10.0.0.1")
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        resolve("example.com", 443, PUBLIC)


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "100.100.100.200"])
def test_permitting_private_addresses_does_not_permit_metadata(monkeypatch, address):
    leads_to(monkeypatch, address)
    with pytest.raises(AddressRefused):
        resolve("example.com", 80, PRIVATE)


def test_a_listed_host_may_be_anywhere_but_its_neighbours_may_not(monkeypatch):
    leads_to(monkeypatch, "10.0.0.5")
    policy = AddressPolicy(allow_hosts=frozenset({"gpu.lan:8000"}))
    assert resolve("GPU.lan", 8000, policy) == [("10.0.0.5", 8000)]
    for host, port in (("gpu.lan", 22), ("other.lan", 8000)):
        with pytest.raises(AddressRefused):
            resolve(host, port, policy)


def caller(url, policy=PUBLIC, transport=None):
    service = Service("Testing", url, {}, (), address_policy=policy)
    return Caller(service, transport=transport)


def test_a_name_that_changes_its_mind_gains_nothing(monkeypatch):
    """The connection goes to the address that was checked: one look-up, not two."""
    looked_up = []

    def answer(host, port, **kwargs):
        looked_up.append(host)
        address = "93.184.216.34" if len(looked_up) == 1 else "127.0.0.1"
        return [(0, 0, 0, "", (address, port))]

    reached = []

    def connect(self, address):
        reached.append(address)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises(Exception, match="cannot be reached"):
        list(caller("http://rebind.example/v1/").events("x", b"{}", Interrupt()))
    assert (looked_up, reached) == (["rebind.example"], [("93.184.216.34", 80)])


def test_the_refusal_reaches_people_as_a_sentence():
    with pytest.raises(ProviderRejected, match=r"private address 127\.0\.0\.1"):
        list(caller("http://127.0.0.1:9/v1/").events("x", b"{}", Interrupt()))


def test_redirects_are_not_followed():
    seen = []

    def answer(request):
        seen.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://169.254.169.254/"})

    asked = caller("http://example.com/v1/", transport=httpx.MockTransport(answer))
    with pytest.raises(ProviderRejected, match="redirects"):
        list(asked.events("x", b"{}", Interrupt()))
    assert seen == ["http://example.com/v1/x"]
