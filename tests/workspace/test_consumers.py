"""The chat socket: who may listen, how it catches up, when it ends."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

from workspace import live, sockets, transcript
from workspace.actions import people
from workspace.asgi import application
from workspace.models import Conversation, Entry, Membership, Role, Turn
from workspace.transcript import Draft

pytestmark = pytest.mark.usefixtures("real_transactions")


@pytest.fixture(autouse=True)
async def _disconnected():
    yield
    await live.disconnect()


@pytest.fixture
def conversation(workspace, member):
    return Conversation.objects.create(
        workspace=workspace, created_by=member, title="Talk"
    )


def cookie_of(user) -> bytes:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    return f"{settings.SESSION_COOKIE_NAME}={session}".encode()


async def socket_of(conversation, user, origin: bytes = b"http://localhost"):
    headers = [(b"host", b"localhost"), (b"origin", origin)]
    if user is not None:
        headers.append((b"cookie", await sync_to_async(cookie_of)(user)))
    return WebsocketCommunicator(
        application, f"/ws/c/{conversation.pk}/", headers=headers
    )


async def opened(conversation, user):
    socket = await socket_of(conversation, user)
    assert (await socket.connect(timeout=5))[0]
    return socket


async def heard(socket, kind: str) -> dict:
    while (message := await socket.receive_json_from(3))["type"] != kind:
        pass
    return message


async def closed_with(socket) -> int:
    while True:
        output = await socket.receive_output(3)
        if output["type"] == "websocket.close":
            return output["code"]


async def test_a_viewer_hears_what_is_pushed(conversation, viewer):
    socket = await opened(conversation, viewer)
    group = live.conversation_group(conversation.pk)
    live.push(group, {"type": "entry.appended", "seq": 1, "kind": "user"})
    assert (await heard(socket, "entry.appended"))["seq"] == 1
    await socket.disconnect()


async def test_strangers_outsiders_and_other_sites_are_turned_away(
    conversation, outsider, member
):
    for user, origin in (
        (None, b"http://localhost"),
        (outsider, b"http://localhost"),
        (member, b"http://evil.example"),
        (member, b"http://localhost:9999"),
        (member, b""),
    ):
        socket = await socket_of(conversation, user, origin)
        assert (await socket.connect(timeout=5))[0] is False


async def test_a_private_conversation_is_closed_to_other_members(conversation, admin):
    await Conversation.objects.filter(pk=conversation.pk).aupdate(private=True)
    socket = await socket_of(conversation, admin)
    assert (await socket.connect(timeout=5))[0] is False


async def test_a_catch_up_tells_the_head_the_turns_and_the_text_so_far(
    conversation, member
):
    def begin() -> Turn:
        turn = Turn.objects.create(
            conversation=conversation, author=member, state=Turn.State.RUNNING
        )
        draft = Draft(kind=Entry.Kind.USER, body={"text": "hi"}, turn=turn)
        transcript.append(conversation.pk, draft, draft)
        return turn

    turn = await sync_to_async(begin)()
    stream = live.TextStream(conversation.pk, "r:1:0")
    stream.write("so far")
    assert await asyncio.to_thread(live.pusher().settle)
    socket = await opened(conversation, member)
    await socket.send_json_to({"after": 0})
    told = await heard(socket, "sync")
    assert told["head"] == 2
    assert told["turns"] == [{"turn": str(turn.pk), "state": "running"}]
    [shown] = told["streams"]
    assert len(shown.pop("epoch")) == 8
    assert shown == {"stream": "r:1:0", "kind": "text", "start": 0, "text": "so far"}
    assert told["people"] == [str(member)]
    stream.close()
    await socket.disconnect()


async def test_removing_a_member_closes_their_socket_within_two_seconds(
    conversation, member, owner, workspace
):
    socket = await opened(conversation, member)
    membership = await workspace.memberships.aget(user=member)
    await sync_to_async(people.remove_member)(member=membership, by=owner)
    assert await asyncio.wait_for(closed_with(socket), 2) == sockets.REVOKED


async def test_another_role_tells_the_page_and_keeps_the_socket(
    conversation, member, owner
):
    socket = await opened(conversation, member)
    membership = await Membership.objects.aget(user=member)
    await sync_to_async(people.change_role)(
        member=membership, role=Role.VIEWER, by=owner
    )
    assert await heard(socket, "access.changed") == {"type": "access.changed"}
    await socket.disconnect()


async def test_the_right_is_asked_again_with_each_message(
    conversation, member, workspace
):
    socket = await opened(conversation, member)
    await workspace.memberships.filter(user=member).adelete()
    await socket.send_json_to({"after": 0})
    assert await closed_with(socket) == sockets.REVOKED


async def test_signing_out_ends_the_socket_with_its_next_message(conversation, member):
    from django.contrib.sessions.models import Session

    socket = await opened(conversation, member)
    await Session.objects.all().adelete()
    await socket.send_json_to({"typing": True})
    assert await closed_with(socket) == sockets.REVOKED


async def test_a_huge_message_ends_the_socket(conversation, member):
    socket = await opened(conversation, member)
    await socket.send_to(text_data="x" * (sockets.LARGEST_MESSAGE + 1))
    assert await closed_with(socket) == sockets.TOO_LARGE


async def test_a_flood_of_messages_ends_the_socket(conversation, member):
    socket = await opened(conversation, member)
    for _ in range(sockets.BURST + 2):
        await socket.send_json_to({"read": 1})
    assert await closed_with(socket) == sockets.TOO_FAST


async def test_nonsense_is_ignored(conversation, member):
    socket = await opened(conversation, member)
    for text in ("{", "[]", '"x"', "null", '{"unknown": 1}', '{"read": "x"}'):
        await socket.send_to(text_data=text)
    await socket.send_json_to({"after": 0})
    assert (await heard(socket, "sync"))["head"] == 0
    await socket.disconnect()


async def test_a_slow_client_is_dropped_and_others_hear_on(
    conversation, member, viewer, monkeypatch
):
    monkeypatch.setattr(sockets, "MOST_UNREAD", 10_000)
    slow, quick = await opened(conversation, member), await opened(conversation, viewer)
    group = live.conversation_group(conversation.pk)
    for number in range(12):
        live.push(group, {"type": "x", "n": number, "padding": "y" * 1000})
        await quick.send_json_to({"read": (await heard(quick, "x"))["n"] * 1100 + 900})
    assert await closed_with(slow) == sockets.TOO_SLOW
    await quick.disconnect()
