"""What every response passes: policy and refusals."""

from __future__ import annotations

import json

import pytest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from workspace.errors import Conflict, TooFast
from workspace.middleware import ActionErrorMiddleware, ContentSecurityPolicyMiddleware

SENTENCE = "Somebody <b>else</b> was first."


def through_policy(view):
    return ContentSecurityPolicyMiddleware(view)(RequestFactory().get("/"))


def refuse(error=None, **headers):
    middleware = ActionErrorMiddleware(lambda request: HttpResponse())
    request = RequestFactory().get("/", headers=headers)
    return middleware.process_exception(request, error or Conflict(SENTENCE))


def test_the_policy_allows_no_inline_script_and_no_frame_around_a_page():
    policy = through_policy(lambda request: HttpResponse())["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_a_page_that_uses_the_nonce_gets_it_into_its_policy():
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(request.csp_nonce))

    first, second = through_policy(page), through_policy(page)
    nonce = first.content.decode()
    assert f"script-src 'self' 'nonce-{nonce}'" in first["Content-Security-Policy"]
    assert nonce != second.content.decode()


def test_a_response_keeps_a_policy_of_its_own():
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Content-Security-Policy": "sandbox"})

    assert through_policy(page)["Content-Security-Policy"] == "sandbox"


@pytest.mark.django_db
def test_a_refusal_is_a_page_for_a_browser_with_its_sentence_escaped():
    response = refuse_page()
    assert response.status_code == 409
    assert b"Somebody &lt;b&gt;else&lt;/b&gt; was first." in response.content


def refuse_page():
    from django.contrib.auth.models import AnonymousUser

    request = RequestFactory().get("/", headers={"Accept": "text/html"})
    request.user = AnonymousUser()
    request.htmx = False
    request.csp_nonce = ""
    return ActionErrorMiddleware(lambda r: HttpResponse()).process_exception(
        request, Conflict(SENTENCE)
    )


def test_a_refusal_is_text_and_a_trigger_for_htmx():
    response = refuse(hx_request="true")
    assert response.status_code == 409
    assert response["Content-Type"].startswith("text/plain")
    assert json.loads(response["HX-Trigger"]) == {"refused": {"message": SENTENCE}}


@pytest.mark.parametrize(
    "headers", [{"accept": "application/json"}, {"sec_fetch_mode": "cors"}]
)
def test_a_refusal_is_json_for_a_script(headers):
    response = refuse(**headers)
    assert json.loads(response.content) == {"error": SENTENCE, "code": "Conflict"}


def test_a_refusal_for_haste_says_when_to_come_back():
    response = refuse(TooFast("Slow down."), accept="application/json")
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0


def test_a_database_that_does_not_answer_is_a_sentence_without_its_words(caplog):
    response = refuse(OperationalError("locked"), accept="application/json")
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert "not stored" in json.loads(response.content)["error"]
    assert b"locked" not in response.content
    assert "locked" in caplog.text


def test_other_faults_are_left_to_the_operator():
    assert refuse(ValueError("a bug")) is None
