"""The run log's socket: who may listen, what it says, when it ends."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

from observability import queries
from tests.observability.conftest import a_round
from workspace import live, sockets
from workspace.asgi import application
from workspace.models import Membership, User

pytestmark = pytest.mark.usefixtures("real_transactions")


def cookie_of(name: str) -> bytes:
    client = Client()
    client.force_login(
        User.objects.get(username=name),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    return f"{settings.SESSION_COOKIE_NAME}={session}".encode()


async def socket(run, name: str, origin: bytes = b"http://localhost"):
    headers = [(b"host", b"localhost"), (b"origin", origin)]
    if name:
        headers.append((b"cookie", await sync_to_async(cookie_of)(name)))
    return WebsocketCommunicator(application, f"/ws/runs/{run.pk}/", headers=headers)


async def ask(open_socket, after: int) -> dict:
    await open_socket.send_json_to({"after": after})
    while (message := await open_socket.receive_json_from(3))["type"] != "sync":
        pass
    return message


async def test_a_viewer_hears_of_each_record_once_it_is_committed(run):
    listener = await socket(run, "vera")
    assert (await listener.connect())[0]
    assert (await ask(listener, 0))["head"] == 0
    await sync_to_async(a_round)(run, 1)
    notice = await listener.receive_json_from(3)
    assert notice == {"type": "record.appended", "run": str(run.pk), "seq": 6}
    await listener.disconnect()


@pytest.mark.parametrize("name", ["otto", ""])
async def test_an_outsider_and_a_stranger_are_turned_away(run, name):
    listener = await socket(run, name)
    assert (await listener.connect())[0] is False


async def test_a_private_run_tells_nothing_to_other_members(make_run):
    run = await sync_to_async(make_run)(private=True, author="mina")
    assert (await (await socket(run, "ola")).connect())[0] is False
    mine = await socket(run, "mina")
    assert (await mine.connect())[0]
    await mine.disconnect()


async def test_another_sites_page_is_turned_away(run):
    listener = await socket(run, "mina", origin=b"https://evil.example")
    assert (await listener.connect())[0] is False


async def test_losing_membership_ends_the_socket_within_two_seconds(run):
    listener = await socket(run, "vera")
    assert (await listener.connect())[0]
    vera = await User.objects.aget(username="vera")
    await Membership.objects.filter(user=vera).adelete()
    live.push(
        live.user_group(vera.pk), {"type": "access.revoked", "user": str(vera.pk)}
    )
    message = await listener.receive_output(2)
    assert message["type"] == "websocket.close"
    assert message["code"] == sockets.REVOKED


async def test_a_reader_cut_off_at_every_point_sees_each_event_once(run):
    """Follows the page's rule: learn the head, fetch behind the cursor, in order."""
    seen: list[int] = []
    rounds = 6

    async def write() -> None:
        for number in range(1, rounds + 1):
            await sync_to_async(a_round)(run, number)
            await asyncio.sleep(0.01)

    async def catch_up(cursor: int) -> int:
        window = await sync_to_async(queries.window)(run, after=cursor, limit=4)
        seen.extend(line.seq for line in window.lines)
        return window.cursor

    writing = asyncio.create_task(write())
    cursor, visits = 0, 0
    while cursor < rounds * 6:
        listener = await socket(run, "mina")
        assert (await listener.connect())[0]
        head = (await ask(listener, cursor))["head"]
        # Each visit is cut off after one more portion than the one before.
        for _ in range(visits % 4):
            if head <= cursor:
                try:
                    head = (await listener.receive_json_from(0.3)).get("seq", head)
                except TimeoutError:
                    break
            cursor = await catch_up(cursor)
        visits += 1
        await listener.disconnect()
    await writing
    assert seen == list(range(1, rounds * 6 + 1))
