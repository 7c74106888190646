"""Requests reach the synchronous views on threads that are kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core import signals
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.utils import translation

from workspace.web import PooledApplication

threads: list[str] = []


def plain(request: HttpRequest) -> HttpResponse:
    threads.append(threading.current_thread().name)
    if language := request.GET.get("language"):
        translation.activate(language)
    said = f"{request.method} {request.body.decode()} {translation.get_language()}"
    return HttpResponse(said)


def broken(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


def streamed(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        yield b"one "
        yield b"two"

    return StreamingHttpResponse(parts())


urlpatterns = [
    path("plain", plain),
    path("broken", broken),
    path("streamed", streamed),
]


@pytest.fixture(autouse=True)
def small_site(settings):
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = ["django.middleware.locale.LocaleMiddleware"]
    settings.ALLOWED_HOSTS = ["*"]
    threads.clear()


async def ask(application, address, body=b"", query=b""):
    scope = {
        "type": "http",
        "method": "POST",
        "path": address,
        "raw_path": address.encode(),
        "query_string": query,
        "headers": [(b"host", b"localhost")],
    }
    told = ApplicationCommunicator(application, scope)
    await told.send_input({"type": "http.request", "body": body})
    start = await told.receive_output(5)
    parts = [await told.receive_output(5)]
    while parts[-1].get("more_body"):
        parts.append(await told.receive_output(5))
    await told.wait(5)
    return start["status"], b"".join(part.get("body", b"") for part in parts).decode()


def test_a_request_is_answered_on_a_kept_thread():
    application = PooledApplication()

    async def twice():
        first = await ask(application, "/plain", b"hello")
        return first, await ask(application, "/plain", b"again")

    assert asyncio.run(twice()) == ((200, "POST hello en"), (200, "POST again en"))
    assert len(set(threads)) == 1
    assert threads[0].startswith("page")


def test_what_a_request_sets_does_not_reach_the_next_one():
    application = PooledApplication()

    async def twice():
        await ask(application, "/plain", query=b"language=ko")
        return await ask(application, "/plain")

    assert asyncio.run(twice())[1].endswith(" en")


def test_several_requests_at_once_each_have_a_thread():
    application = PooledApplication()

    async def together():
        return await asyncio.gather(*(ask(application, "/plain") for _ in range(5)))

    assert {status for status, _ in asyncio.run(together())} == {200}


def test_a_broken_view_answers_500_and_the_next_request_is_served():
    application = PooledApplication()

    async def both():
        return await ask(application, "/broken"), await ask(application, "/plain")

    (status, _), (next_status, _) = asyncio.run(both())
    assert (status, next_status) == (500, 200)


@pytest.mark.parametrize("address", ["/plain", "/streamed", "/missing"])
def test_every_request_ends_with_its_signal(address):
    ended = []

    def note(**_kwargs):
        ended.append(threading.current_thread().name)

    signals.request_finished.connect(note)
    try:
        status, text = asyncio.run(ask(PooledApplication(), address))
    finally:
        signals.request_finished.disconnect(note)
    assert len(ended) == 1
    assert ended[0].startswith("page")
    assert (status == 404) == (address == "/missing")
    assert address != "/streamed" or text == "one two"


def test_a_browser_that_left_ends_the_stream():
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/streamed",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    inputs = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive():
        return inputs.pop(0)

    async def send(message):
        await asyncio.sleep(5)  # nobody reads

    async def leave():
        await asyncio.wait_for(PooledApplication()(scope, receive, send), 2)

    asyncio.run(leave())
    assert inputs == []
