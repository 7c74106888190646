"""What the proxy makes of a request's head, honest or not."""

from __future__ import annotations

import pytest

from agents.providers.addresses import AddressRefused
from agents.sandbox.asked import CHUNKED, BadRequest, parse


def head(first, *headers):
    return "\r\n".join([first, *headers]).encode("latin-1")


def test_a_plain_request_is_written_anew_for_its_server():
    asked = parse(
        head(
            "POST http://Example.COM:8080/a%20b?c=d HTTP/1.1",
            "Host: elsewhere.test",
            "Proxy-Authorization: Basic eDp5",
            "Proxy-Connection: keep-alive",
            "Connection: X-Private",
            "X-Private: 1",
            "Accept: */*",
            "Content-Length: 5",
        )
    )
    assert (asked.host, asked.port, asked.length) == ("example.com", 8080, 5)
    assert asked.head.decode().split("\r\n") == [
        "POST /a%20b?c=d HTTP/1.1",
        "Host: example.com:8080",
        "Accept: */*",
        "Content-Length: 5",
        "Connection: close",
        "",
        "",
    ]


def test_a_tunnel_names_only_a_host_and_a_port():
    asked = parse(head("CONNECT [2001:DB8::1]:443 HTTP/1.1", "Host: x"))
    assert (asked.host, asked.port, asked.head) == ("2001:db8::1", 443, b"")
    assert parse(head("CONNECT Example.com.:443 HTTP/1.1")).host == "example.com"


def test_a_body_in_chunks_is_announced_as_such():
    line = "PUT http://a.test/ HTTP/1.1"
    asked = parse(head(line, "Transfer-Encoding: Chunked", "Expect: 100-continue"))
    assert (asked.length, asked.expects) == (CHUNKED, True)
    assert b"Transfer-Encoding: chunked\r\n" in asked.head
    assert b"Expect" not in asked.head


@pytest.mark.parametrize(
    "first",
    [
        "",
        "GET",
        "GET / HTTP/1.1",
        "GET //evil.test/ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET http://a.test/",
        "GET http://a.test/ HTTP/2.0",
        "GET  http://a.test/ HTTP/1.1",
        "GET\thttp://a.test/\tHTTP/1.1",
        "GET http://a.test/ x HTTP/1.1",
        "GET http://a.test/\n HTTP/1.1",
        "GET http://a.test/#x HTTP/1.1",
        "GET http://\xe4.test/ HTTP/1.1",
        "G(T http://a.test/ HTTP/1.1",
        "GET https://a.test/ HTTP/1.1",
        "GET ftp://a.test/ HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "GET http:a.test HTTP/1.1",
        "CONNECT a.test HTTP/1.1",
        "CONNECT a.test:0 HTTP/1.1",
        "CONNECT a.test:65536 HTTP/1.1",
        "CONNECT a.test:٤٤٣ HTTP/1.1".encode().decode("latin-1"),
        "CONNECT u:p@a.test:443 HTTP/1.1",
        "CONNECT http://a.test:443 HTTP/1.1",
        "CONNECT :443 HTTP/1.1",
        "CONNECT .:443 HTTP/1.1",
        f"CONNECT {'a' * 254}:443 HTTP/1.1",
        "CONNECT fe80::1%25eth0:443 HTTP/1.1",
    ],
)
def test_a_request_line_that_could_mean_something_else_is_refused(first):
    with pytest.raises(BadRequest):
        parse(head(first, "Host: a.test"))


@pytest.mark.parametrize(
    "target",
    [
        "http://good.test@evil.test/",
        "http://good.test\\@evil.test/",
        "http:///etc/passwd",
        "http://good.test%2eevil.test/",
        "http://a.test:port/",
        "http://[::1%25lo]/",
        "http://[::1/",
        f"http://{'a' * 254}/",
    ],
)
def test_an_address_that_names_its_host_unclearly_is_refused(target):
    with pytest.raises(AddressRefused):
        parse(head(f"GET {target} HTTP/1.1"))


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Content-Length: 5"],
        ["Content-Length: +5"],
        ["Content-Length: 5, 5"],
        ["Content-Length: 0x5"],
        ["Content-Length: -1"],
        ["Content-Length:"],
        ["Content-Length: 9999999999999999"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding : chunked"],
        ["X: 1", " Transfer-Encoding: chunked"],
        ["X: a\nTransfer-Encoding: chunked"],
        ["X: a\rTransfer-Encoding: chunked"],
        ["X: \0"],
        ["X"],
        [": x"],
        [""],
        ["Host: a.test", "Host: b.test"],
    ],
)
def test_headers_that_two_readers_could_read_differently_are_refused(headers):
    with pytest.raises(BadRequest):
        parse(head("POST http://a.test/ HTTP/1.1", *headers))


def test_a_tunnel_with_a_body_is_refused():
    with pytest.raises(BadRequest):
        parse(head("CONNECT a.test:443 HTTP/1.1", "Content-Length: 4"))
