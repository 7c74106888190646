"""Reports about security: rights on open sockets, addresses, secrets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from tests.harness.sockets import SocketRefused, WebSocket
from tests.reports.canaries import ARGUMENT, ENDPOINT_KEY, ENVIRONMENT
from tests.reports.live import (
    SLUG,
    Rows,
    Visitor,
    close_code,
    frames,
    second_server,
    shell,
)
from tests.reports.live import script as message

pytestmark = [pytest.mark.kill, pytest.mark.timeout(240)]

#: Seconds within which a lost right must be felt on an open socket.
FELT = 2.0
REVOKED = 4403
ENDPOINTS = f"/w/{SLUG}/settings/endpoints/"
MEMBERS = f"/w/{SLUG}/settings/members/"
SECRETS = {
    *(ENVIRONMENT["EMAIL_PASSWORD"], ENVIRONMENT["OIDC_CLIENT_SECRET"]),
    *(ENVIRONMENT["SOME_OTHER_API_KEY"], ENDPOINT_KEY),
}


def seat_of(rows: Rows, username: str) -> int:
    [(seat,)] = rows.all(
        "SELECT m.id FROM workspace_membership m JOIN workspace_user u"
        " ON u.id = m.user_id WHERE u.username = ?",
        username,
    )
    return int(seat)


@pytest.fixture
def somebody(boss) -> Visitor:
    name = f"some-{uuid4().hex[:6]}"
    visitor = boss.invite(name)
    visitor.name = name
    return visitor


def test_row_24_removing_a_member_closes_sockets_and_ends_their_work(
    installation, boss, rows, somebody
):
    talk = somebody.converse("auto")
    somebody.say(talk, message(shell("sleep 30"), {"text": "Too late."}))
    rows.wait_state(talk, "running")

    async def removed(sockets):
        for socket in sockets:
            await socket.open()
        path = f"{MEMBERS}{seat_of(rows, somebody.name)}/remove"
        answer = await asyncio.to_thread(boss.send, path)
        assert answer.status_code == 302
        codes = await asyncio.gather(*(close_code(one, FELT) for one in sockets))
        for socket in sockets:
            await socket.leave()
        return codes

    with second_server(installation) as origin:
        sockets = [somebody.socket(talk), somebody.at(origin).socket(talk)]
        assert asyncio.run(removed(sockets)) == [REVOKED, REVOKED]
    assert somebody.post(talk, "hello").status_code == 404
    with pytest.raises(SocketRefused):
        asyncio.run(somebody.socket(talk).open())
    assert rows.wait_ended(talk) in ("stopped", "failed")
    said = [one["text"] for one in rows.bodies(talk, "assistant")]
    assert said == ["Running it."]


def test_row_24_a_demoted_persons_next_frame_and_post_are_refused(boss, rows, somebody):
    talk = somebody.converse()

    async def demoted() -> list[set[str]]:
        async with boss.socket(talk) as other, somebody.socket(talk) as socket:
            await socket.send({"typing": True})
            before = await frames(other, 3, "presence.typing")
            path = f"{MEMBERS}{seat_of(rows, somebody.name)}/role"
            answer = await asyncio.to_thread(boss.send, path, {"role": "viewer"})
            assert answer.status_code == 302
            await socket.send({"typing": True})
            after = await frames(other, FELT)
            await socket.send({"after": 0})
            sync = await frames(socket, 3, "sync")
        return [{one["type"] for one in found} for found in (before, after, sync)]

    before, after, sync = asyncio.run(demoted())
    assert "presence.typing" in before
    assert "presence.typing" not in after
    assert "sync" in sync  # a viewer may go on reading
    answer = somebody.post(talk, "hello")
    assert answer.status_code == 403
    assert somebody.send(somebody.path(talk, "stop")).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "null"]
)
def test_row_24_a_socket_from_another_site_is_refused(boss, origin):
    talk = boss.converse()
    there = boss.socket(talk)

    class Foreign(WebSocket):
        """Connects to the product and claims to come from elsewhere."""

        async def open(self) -> None:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", int(boss.origin.rsplit(":", 1)[1])
            )
            self._reader, self._writer = reader, writer
            lines = (
                f"GET {there.path} HTTP/1.1",
                f"Host: {boss.origin.removeprefix('http://')}",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
                "Sec-WebSocket-Version: 13",
                f"Origin: {self.origin}",
                f"Cookie: {self.cookie}",
            )
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            status = (await reader.readline()).decode()
            writer.close()
            await asyncio.sleep(0.01)
            if " 101 " not in status:
                raise SocketRefused(status)

    with pytest.raises(SocketRefused):
        asyncio.run(Foreign(origin, there.path, boss.cookie).open())


def test_an_admin_who_may_only_read_a_private_talk_can_do_nothing_in_it(
    boss, rows, somebody
):
    admin = boss.invite(f"admin-{uuid4().hex[:6]}", "admin")
    viewer = boss.invite(f"viewer-{uuid4().hex[:6]}", "viewer")
    talk = somebody.converse("auto")
    somebody.say(talk, message(shell("sleep 20")))
    rows.wait_state(talk, "running")
    writes = ("messages", "stop", "retry", "resend", "level", "rename")
    fields = {
        "text": "x",
        "client_id": "y",
        "to_seq": "3",
        "level": "auto",
        "title": "t",
    }
    assert {
        viewer.send(viewer.path(talk, one), fields).status_code for one in writes
    } == {403}
    private = somebody.send(f"/w/{SLUG}/new", {"private": "on"}).headers["location"]
    for one in ("", *writes, "waits", "figures", "entries"):
        assert admin.send(private + one, fields).status_code in (404, 405)
        assert admin.client.get(private + one).status_code in (404, 405)
    assert rows.runs(talk)[-1][0] == "running"
    somebody.send(somebody.path(talk, "stop")).raise_for_status()


INNER = [
    "http://127.0.0.1:6379/v1",
    "http://localhost/v1",
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:10.0.0.1]/v1",
    "http://2130706433/v1",
    "http://0x7f000001/v1",
    "http://[fd00:ec2::254]/v1",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("address", INNER)
def test_row_25_an_admin_without_the_servers_trust_reaches_no_inner_address(
    boss, rows, address
):
    admin = boss.invite(f"admin-{uuid4().hex[:6]}", "admin")
    form = {"name": uuid4().hex, "kind": "chat_completions", "base_url": address}
    answer = admin.send(f"{ENDPOINTS}new/", form | {"allow_private": "on"})
    assert answer.status_code == 400
    assert "errorlist" in answer.text or "error" in answer.text
    assert not rows.all("SELECT 1 FROM agents_endpoint WHERE name = ?", form["name"])


class Teller(BaseHTTPRequestHandler):
    """A model service that repeats the key it was sent in what it says."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        sent = self.headers["Authorization"]
        said = f"The header {sent!r} is wrong: key {sent[7:]}, {sent[7:19]}…"
        data = json.dumps({"error": {"message": said}}).encode()
        self.server.heard.append(sent)
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def teller() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Teller) as server:
        server.heard = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def telling(boss, rows, teller) -> Iterator[None]:
    """The workspace's default model is one of that service, behind a secret key."""
    form = {
        "name": "Teller",
        "kind": "chat_completions",
        "base_url": f"http://127.0.0.1:{teller.server_port}/v1",
        "key": ENDPOINT_KEY,
        "allow_private": "on",
    }
    made = boss.send(f"{ENDPOINTS}new/", form)
    assert made.status_code == 302, made.text[:3000]
    address = made.headers["location"]
    limits = {"name": "teller-1", "window": "128000", "max_output": "1000"}
    added = boss.send(f"{address}models/", limits | {"vision": "no"})
    assert added.status_code == 302, added.text[:3000]
    boss.send(f"{address}test")
    [(model,)] = rows.all("SELECT id FROM agents_languagemodel WHERE name = 'teller-1'")
    chosen = boss.send(f"{ENDPOINTS}default", {"model": str(UUID(model))})
    assert chosen.status_code == 302, chosen.text[:500]
    yield
    boss.send(f"{ENDPOINTS}default", {"model": ""})
    boss.send(f"{address}delete")


def stored_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Everything that the installation has written, its key files aside."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in {"fernet.key", "secret_key"}:
            yield str(path.relative_to(folder)), path.read_bytes()


def pages_of(boss: Visitor, rows: Rows, talk) -> Iterator[tuple[str, bytes]]:
    """Every page that shows something of a conversation, its runs or the settings."""
    seqs = [
        seq
        for (seq,) in rows.all(
            "SELECT seq FROM workspace_entry WHERE conversation_id = ?", talk.pk.hex
        )
    ]
    paths = [
        boss.path(talk),
        boss.path(talk, "entries?after=0&limit=300"),
        boss.path(talk, "tail"),
        boss.path(talk, "figures"),
        *(boss.path(talk, f"entries/{seq}/raw") for seq in seqs),
        *(ENDPOINTS, f"/w/{SLUG}/settings/permissions/", "/observability/"),
        f"/w/{SLUG}/settings/agents/assistant/logs/",
    ]
    for _, _, run_id in rows.runs(talk):
        run = UUID(run_id)
        found = boss.client.get(f"/w/{SLUG}/runs/{run}/")
        assert found.status_code == 200
        yield "the run log", found.content
        paths += [f"/w/{SLUG}/runs/{run}/{part}" for part in ("records", "ndjson")]
    for (endpoint,) in rows.all("SELECT id FROM agents_endpoint WHERE name = 'Teller'"):
        paths.append(f"{ENDPOINTS}{UUID(endpoint)}/")
    for path in paths:
        yield path, boss.client.get(path).content


def exported(installation, talk) -> bytes:
    done: subprocess.CompletedProcess[str] = installation.manage(
        "transcript", "export", str(talk.pk)
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).encode()


@pytest.mark.usefixtures("telling")
def test_row_25_the_servers_secrets_stand_nowhere_after_a_run_that_met_them_all(
    installation, boss, rows, teller
):
    talk = boss.converse("auto")
    boss.say(talk, "Tell me the key.")
    assert rows.wait_ended(talk) == "failed"
    assert teller.heard[-1] == f"Bearer {ENDPOINT_KEY}"
    boss.send(f"{ENDPOINTS}default", {"model": ""})
    command = "env; cat /proc/self/environ /proc/1/environ /proc/[0-9]*/environ"
    boss.say(talk, message(shell(command), {"text": "Seen."}))
    assert rows.wait_ended(talk) == "finished"
    places = [
        *stored_files(installation.folder),
        *pages_of(boss, rows, talk),
        ("the export", exported(installation, talk)),
    ]
    assert len(places) > 25
    found = [
        (place, secret[:12])
        for place, data in places
        for secret in SECRETS
        if secret.encode() in data or quote(secret).encode() in data
    ]
    assert found == []
    assert not any(ENDPOINT_KEY[:16].encode() in data for _, data in places)


def test_row_25_a_key_in_a_tools_arguments_is_in_the_transcript_and_in_no_log(
    installation, boss, rows
):
    """The transcript is what was said, byte for byte; all that tells of it is not."""
    talk = boss.converse("auto")
    boss.say(talk, message(shell(f"echo {ARGUMENT}"), {"text": "Said."}))
    assert rows.wait_ended(talk) == "finished"
    assert any(ARGUMENT in json.dumps(one) for one in rows.bodies(talk, "assistant"))
    records = rows.all("SELECT text, data FROM observability_record")
    assert not any(ARGUMENT in f"{text} {data}" for text, data in records)
    assert any("shell" in text for text, _ in records)
    logs = [
        path for path in installation.folder.rglob("*.log") if "simul" not in path.name
    ]
    assert logs
    assert not any(ARGUMENT.encode() in path.read_bytes() for path in logs)
    pages = [
        (name, data) for name, data in pages_of(boss, rows, talk) if "/c/" not in name
    ]
    assert [name for name, data in pages if ARGUMENT.encode() in data] == []
