"""Connections: kept alive, checked, secure, and cut from outside."""

import datetime
import select
import socket
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agents.errors import ProviderUnavailable, RunStoppedByUser
from agents.interrupts import Interrupt
from agents.providers.addresses import AddressPolicy
from agents.providers.http import Caller, Service, Timeouts

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
WHOLE = HEAD + b"content-length: 11\r\n\r\ndata: one\n\n"


class Served:
    """A socket server that answers each request with `answer`, or stays silent."""

    def __init__(self, answer=b"", *, context=None):
        self.requests, self.connections, self.hung_up = [], 0, threading.Event()
        self._answer, self._context = answer, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._talk(connection)

    def _talk(self, connection):
        if not self._context:
            self._answer_all(connection)
            return
        try:
            secure = self._context.wrap_socket(connection, server_side=True)
        except OSError:
            return
        with secure:
            self._answer_all(secure)

    def _answer_all(self, connection):
        try:
            while request := connection.recv(65536):
                self.requests.append(request)
                connection.sendall(self._answer)
        except OSError:
            pass
        self.hung_up.set()

    def received(self, ending):
        """All that came in, once it ends so: the body may come after the head."""
        deadline = time.monotonic() + 5
        while not (sent := b"".join(self.requests)).endswith(ending):
            assert time.monotonic() < deadline, sent
            time.sleep(0.01)
        return sent

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def serve():
    servers = []

    def start(*args, **fields):
        servers.append(Served(*args, **fields))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def caller(server, scheme="http", host="localhost", **timeouts):
    usual = {"connect": 2, "first_byte": 5, "idle": 5}
    service = Service(
        "Testing",
        f"{scheme}://{host}:{server.port}/v1/",
        {"Authorization": "Bearer k"},
        ("k",),
        Timeouts(**(usual | timeouts)),
        AddressPolicy(allow_private=True),
    )
    return Caller(service)


def ask(asked, interrupt=None):
    return list(asked.events("chat", b"{}", interrupt or Interrupt()))


def test_connections_are_kept_alive_and_warmed_ones_are_used(serve):
    server = serve(WHOLE)
    asked = caller(server)
    asked.warm()
    assert ask(asked) == ask(asked) == [b"one"]
    assert server.connections == 1


def test_the_body_goes_out_as_it_is_and_no_compression_is_wanted(serve):
    server = serve(WHOLE)
    ask(caller(server))
    sent = server.received(b"\r\n\r\n{}").lower()
    assert sent.startswith(b"post /v1/chat http/1.1\r\n")
    assert b"accept-encoding: identity" in sent
    assert f"host: localhost:{server.port}".encode() in sent
    assert sent.endswith(b"\r\n\r\n{}")


def test_an_idle_connection_that_the_service_closed_is_not_used(serve):
    server = serve(WHOLE)
    asked = caller(server)
    ask(asked)
    idle = asked._transport._idle[0]
    idle.sock.shutdown(socket.SHUT_WR)  # the server answers by closing its side
    assert server.hung_up.wait(2)
    assert select.select([idle.sock], [], [], 5)[0], "the server's side is closed"
    assert ask(asked) == [b"one"]
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"content-length: 500\r\nconnection: close\r\n\r\ndata: one\n\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nnonsense\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
    ids=["short body", "no last chunk", "broken chunk", "not HTTP", "nothing"],
)
def test_answers_that_break_off_are_worth_another_try(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def serve_once():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve_once)
        thread.start()
        server = type("Server", (), {"port": listener.getsockname()[1]})
        with pytest.raises(ProviderUnavailable):
            ask(caller(server))
        thread.join(5)


def test_a_port_where_nobody_listens_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = type("Server", (), {"port": port})
    with pytest.raises(ProviderUnavailable, match="Testing cannot be reached"):
        ask(caller(server))


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A server context for `localhost`, whose certificate this process trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost")]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "both.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


def test_https_checks_the_name_though_it_connects_to_an_address(serve, certificate):
    server = serve(WHOLE, context=certificate)
    assert ask(caller(server, "https")) == [b"one"]
    other = serve(WHOLE, context=certificate)
    with pytest.raises(ProviderUnavailable, match="cannot be reached"):
        ask(caller(other, "https", host="127.0.0.1"))


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
def test_a_stop_wakes_a_silent_read_and_the_service_sees_the_end(
    serve, certificate, is_secure
):
    server = serve(HEAD + b"\r\n", context=certificate if is_secure else None)
    interrupt = Interrupt()
    threading.Timer(0.3, interrupt.stop, [RunStoppedByUser()]).start()
    started = time.monotonic()
    with pytest.raises(RunStoppedByUser):
        ask(caller(server, "https" if is_secure else "http"), interrupt)
    assert time.monotonic() - started < 2.3
    assert server.hung_up.wait(2)


def test_a_stop_wakes_a_handshake_that_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = type("Server", (), {"port": listener.getsockname()[1]})
        interrupt = Interrupt()
        threading.Timer(0.3, interrupt.stop, [RunStoppedByUser()]).start()
        started = time.monotonic()
        with pytest.raises(RunStoppedByUser):
            ask(caller(server, "https", connect=10), interrupt)
        assert time.monotonic() - started < 2.3
