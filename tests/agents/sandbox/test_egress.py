"""The way out of the sandbox, and attempts to take it elsewhere.

`public.test` leads to a server of the test; everything else is resolved for real.
"""

from __future__ import annotations

import contextlib
import http.server
import logging
import os
import socket
import struct
import tempfile
import threading
import time
from dataclasses import replace

import pytest

from agents.providers.addresses import AddressPolicy, AddressRefused
from agents.sandbox.egress import Egress, Rules, is_own, resolve_elsewhere


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked; /leave redirects to the path's own address."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(f"{self.requestline}\n{self.headers}".encode() + body)

    do_POST = do_GET

    def answer(self, body):
        if self.path.startswith("/leave?"):
            self.send_response(302)
            self.send_header("Location", self.path.partition("?")[2])
        else:
            self.send_response(200)
        if self.path == "/large":
            body = b"x" * 3_000_000
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def rules(server):
    def resolve(host, port, policy):
        if host == "public.test":
            return [("127.0.0.1", server.server_port)]
        return resolve_elsewhere(host, port, policy)

    return Rules(resolve=resolve, idle_seconds=5)


def ask(egress, *pieces, pause=0.0):
    """Everything that comes back for what is sent to the proxy's socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(os.fspath(egress.path))
        for piece in pieces:
            client.sendall(piece)
            time.sleep(pause)
        return b"".join(iter(lambda: client.recv(65_536), b""))


def get(egress, url, *headers):
    lines = [f"GET {url} HTTP/1.1", "Host: x", *headers, "", ""]
    return ask(egress, "\r\n".join(lines).encode())


def connect(egress, where):
    return ask(egress, f"CONNECT {where} HTTP/1.1\r\n\r\n".encode())


def test_a_request_is_made_logged_and_told(rules, caplog):
    with caplog.at_level(logging.INFO), Egress(rules) as egress:
        answer = get(egress, "http://public.test/a?secret=1", "X-Kept: 1")
    assert b"GET /a?secret=1 HTTP/1.1\nHost: public.test\nX-Kept: 1" in answer
    (visit,) = egress.visits
    assert (visit.method, visit.host, visit.port) == ("GET", "public.test", 80)
    assert visit.received == len(answer)
    assert "GET public.test:80: permitted" in caplog.text
    assert "secret" not in caplog.text


def test_a_tunnel_carries_bytes_both_ways(rules):
    with Egress(rules) as egress:
        answer = ask(
            egress,
            b"CONNECT public.test:443 HTTP/1.1\r\nHost: x\r\n\r\nGET /early HTTP/1.1\r\n",
            b"Host: inside\r\nConnection: close\r\n\r\n",
        )
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200")
    assert b"GET /early HTTP/1.1\nHost: inside" in answer


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    ],
)
def test_a_body_arrives_and_nothing_after_it(rules, body):
    smuggled = b"GET http://public.test/second HTTP/1.1\r\n\r\n"
    with Egress(rules) as egress:
        answer = ask(egress, b"POST http://public.test/ HTTP/1.1\r\n", body + smuggled)
    assert answer.endswith(b"\n\nhello")
    assert answer.count(b"HTTP/1.1 200") == 1
    assert egress.asked == 1


def test_chunks_are_measured_anew(rules):
    start = b"POST http://public.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Egress(rules) as egress, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        egress.rules = replace(rules, resolve=lambda *_: [("127.0.0.1", port)])
        received = []

        def serve():
            with server.accept()[0] as client:
                while not b"".join(received).endswith(b"0\r\n\r\n"):
                    received.append(client.recv(65_536))
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        pieces = [start, b"05;x=y\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\nGET"]
        assert ask(egress, *pieces).startswith(b"HTTP/1.1 204")
        body = b"".join(received).partition(b"\r\n\r\n")[2]
        assert body == b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"


@pytest.mark.parametrize("chunks", [b"x\r\n", b"-1\r\n", b"5\r\nhello!\r\n", b"\r\n"])
def test_chunks_that_lie_about_their_length_end_the_request(rules, chunks):
    start = b"POST http://public.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Egress(rules) as egress:
        assert b"200" not in ask(egress, start + chunks)
    assert egress.visits[0].refused


def test_a_server_that_hangs_up_before_the_request_is_whole_is_told_of(rules):
    start = b"POST http://public.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Egress(rules) as egress, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        egress.rules = replace(rules, resolve=lambda *_: [("127.0.0.1", port)])

        def hang_up():
            client = server.accept()[0]
            client.recv(1)
            linger = struct.pack("ii", 1, 0)  # closing resets the connection
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(os.fspath(egress.path))
            client.sendall(start)
            thread.join()
            with contextlib.suppress(OSError):
                for _ in range(50):
                    client.sendall(b"5\r\nhello\r\n")
                    time.sleep(0.01)
                client.recv(1)
    assert "broke off" in egress.visits[0].refused


LOOPBACK = [
    "127.0.0.1",
    "127.1.2.3",
    "localhost",
    "LOCALHOST.",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0.0.0.0",  # noqa: S104 - where to go, not where to listen
    "[::]",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "10.0.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "224.0.0.1",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_neither_this_machine_nor_its_network_is_reached(rules, host):
    with Egress(rules) as egress:
        for answer in (get(egress, f"http://{host}/"), connect(egress, f"{host}:443")):
            assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
    assert all(visit.refused for visit in egress.visits)


def test_a_public_name_that_leads_inside_is_refused(rules, monkeypatch):
    def lookup(host, port, **_):
        at = {"inside.test": ["10.1.2.3"], "mixed.test": ["1.1.1.1", "127.0.0.1"]}[host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in at]

    with Egress(rules) as egress:
        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        assert b"private address 10.1.2.3" in get(egress, "http://inside.test/")
        assert get(egress, "http://mixed.test/").startswith(b"HTTP/1.1 403")


def test_not_even_an_administrators_list_leads_to_this_machine():
    policy = AddressPolicy(frozenset({"localhost", "127.0.0.1"}), allow_private=True)
    for host in ("localhost", "127.0.0.1"):
        with pytest.raises(AddressRefused, match="this server itself"):
            resolve_elsewhere(host, 80, policy)
    assert is_own("::ffff:127.0.0.1")
    assert is_own("0.0.0.0")  # noqa: S104 - asked, not listened to
    assert not is_own("1.1.1.1")


def test_each_address_a_redirect_names_is_checked_like_the_first(rules):
    with Egress(rules) as egress:
        answer = get(egress, "http://public.test/leave?http://127.0.0.1/")
        assert b"Location: http://127.0.0.1/\r\n" in answer
        assert get(egress, "http://127.0.0.1/").startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("port", [22, 25, 8080, 6379])
def test_only_the_ports_of_the_web_are_open(rules, port):
    with Egress(rules) as egress:
        assert b"Port" in get(egress, f"http://public.test:{port}/")
        assert connect(egress, f"public.test:{port}").startswith(b"HTTP/1.1 403")


def test_an_operator_can_name_the_hosts_and_one_host_with_its_port(rules):
    policy = AddressPolicy(frozenset({"public.test:8443"}))
    some = replace(rules, hosts=frozenset({"*.example.org", "public.test"}))
    with Egress(replace(some, addresses=policy)) as egress:
        assert get(egress, "http://public.test/").startswith(b"HTTP/1.1 200")
        assert get(egress, "http://public.test:8443/").startswith(b"HTTP/1.1 200")
        for host in ("example.org", "evil-example.org", "public.test.evil.test"):
            assert b"not among the hosts" in get(egress, f"http://{host}/")
    assert some._lists("a.b.example.org")


def test_a_name_that_nobody_knows_is_a_bad_gateway(rules):
    with Egress(rules) as egress:
        answer = get(egress, "http://no-such-host.invalid/")
    assert answer.startswith(b"HTTP/1.1 502")


def test_a_slow_client_is_given_up(rules):
    with Egress(replace(rules, head_seconds=0.5)) as egress:
        begin = time.monotonic()
        answer = ask(egress, b"GET http://public.test/ HTTP/1.1\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        with pytest.raises(OSError):
            ask(egress, *[b"X: 1\r\n"] * 100, pause=0.05)
        assert time.monotonic() - begin < 4


def test_slow_clients_leave_room_for_others_after_a_while(rules):
    with Egress(replace(rules, connections=2, head_seconds=0.5)) as egress:
        idle = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for one in idle:
            one.connect(os.fspath(egress.path))
        assert get(egress, "http://public.test/").startswith(b"HTTP/1.1 200")
        for one in idle:
            one.close()


def test_a_giant_header_is_refused(rules):
    with Egress(rules) as egress, socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(os.fspath(egress.path))
        with pytest.raises(OSError):
            client.sendall(
                b"GET http://public.test/ HTTP/1.1\r\nX: " + b"x" * 5_000_000
            )
    assert egress.visits[0].refused == "The request is too long or comes too slowly."


def test_a_command_carries_only_as_much_as_it_may(rules):
    with Egress(replace(rules, traffic=1 << 20)) as egress:
        assert len(get(egress, "http://public.test/large")) < 2 << 20
        answer = get(egress, "http://public.test/")
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"1 MB over the network" in answer


def test_the_end_of_a_command_ends_its_connections_and_leaves_nothing(rules):
    with socket.socket(socket.AF_UNIX) as client:
        with Egress(rules) as egress:
            client.connect(os.fspath(egress.path))
            client.sendall(b"CONNECT public.test:443 HTTP/1.1\r\n\r\n")
            assert b"200" in client.recv(100)
            begin = time.monotonic()
        client.settimeout(5)
        assert client.recv(1) == b""
        assert time.monotonic() - begin < 1
    assert not egress.folder.exists()


def test_a_long_temporary_folder_is_no_obstacle(rules, tmp_path, monkeypatch):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with Egress(rules) as egress:
        assert egress.path.is_socket()
        assert egress.folder.stat().st_mode & 0o777 == 0o700


FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=10).read().decode().split("\\n")[0])
    except Exception as error: print(type(error).__name__, error)
"""


@pytest.fixture
def fetch(box, rules):
    """Let a client in the sandbox visit addresses, with or without a way out."""
    from agents import sandbox

    if not sandbox.find_python():
        pytest.skip("the system has no Python of its own")

    def run(*urls, network=rules):
        argv = [sandbox.find_python(), "-I", "-c", FETCH, *urls]
        return replace(box, network=network).run(argv, timeout=20)

    return run


def test_clients_in_the_sandbox_find_the_way_by_themselves(fetch, server):
    urls = ["http://public.test/a", "http://public.test/leave?http://10.0.0.1/"]
    outcome = fetch(*urls, f"http://127.0.0.1:{server.server_port}/")
    first, second, third = outcome.stdout.decode().splitlines()
    assert first == "GET /a HTTP/1.1"
    assert second == "HTTPError HTTP Error 403: Forbidden"
    assert "Connection refused" in third
    hosts = [(v.host, bool(v.refused)) for v in outcome.visits]
    assert hosts == [("public.test", False), ("public.test", False), ("10.0.0.1", True)]
    assert outcome.asked == 3


def test_without_the_grant_there_is_no_way_out(fetch):
    outcome = fetch("http://public.test/", network=None)
    assert outcome.stdout.startswith(b"URLError")
    assert outcome.visits == ()


def test_only_the_proxy_is_new_in_the_view(box, rules, server):
    granted = replace(box, network=rules)
    listed = granted.run(["/bin/sh", "-c", "ls -A /run /run/egress /etc"], timeout=20)
    assert set(listed.stdout.decode().split()) <= {
        "/run:", "egress", "/run/egress:", "forward.py", "proxy", "/etc:", "alternatives",
        "group", "hosts", "ld.so.cache", "nsswitch.conf", "passwd", "pki", "ssl",
    }  # fmt: skip
    program = (
        f"import socket; socket.create_connection(('127.0.0.1', {server.server_port}))"
    )
    outcome = granted.run(["/usr/bin/python3", "-c", program], timeout=20)
    assert b"ConnectionRefusedError" in outcome.stderr
    assert granted.run(["/bin/sh", "-c", "echo x > /run/egress/x"], timeout=20).exit


def test_a_command_that_waits_for_its_children_does_not_wait_for_the_way(box, rules):
    program = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    granted = replace(box, network=rules)
    outcome = granted.run(["/usr/bin/python3", "-c", program], timeout=10)
    assert outcome.stdout == b"none\n"
    outcome = granted.run(["/bin/sh", "-c", "cat; exit 3"], timeout=10, stdin=b"in")
    assert (outcome.stdout, outcome.exit) == (b"in", 3)
    outcome = granted.run(["no-such-program"], timeout=10)
    assert b"No such file" in outcome.stderr
