"""What every response passes: the content policy, and refusals as sentences."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject, empty
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from workspace.errors import ActionError, TooFast, Unavailable

logger = logging.getLogger(__name__)

BUSY = gettext_noop(
    "The server's database is busy or out of reach, and what you sent was not stored. "
    "Send it again in a moment."
)
GetResponse = Callable[[HttpRequest], HttpResponseBase]

POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "frame-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}


def product(request: HttpRequest) -> dict[str, object]:
    """What every template may show: the product's name, the nonce of this page."""
    return {
        "PRODUCT_NAME": settings.PRODUCT_NAME,
        "csp_nonce": getattr(request, "csp_nonce", ""),
    }


class ContentSecurityPolicyMiddleware:
    """Sends a strict policy with every response that does not bring its own.

    The one inline script that browsers cannot load from a file is the import map;
    a page that uses `csp_nonce` for it gets that nonce into its policy.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        nonce = SimpleLazyObject(lambda: secrets.token_urlsafe(16))
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = self.get_response(request)
        if "Content-Security-Policy" not in response:
            response["Content-Security-Policy"] = content_policy(nonce)
        # Pages belong to whoever is signed in: no shared cache may keep one.
        response.setdefault("Cache-Control", "private, no-cache")
        return response


def content_policy(nonce: Any) -> str:
    """The header's value; names the nonce only if the page used it."""
    policy = dict(POLICY)
    if nonce.__dict__["_wrapped"] is not empty:
        policy["script-src"] += f" 'nonce-{nonce}'"
    return "; ".join(f"{name} {value}" for name, value in policy.items())


class ActionErrorMiddleware:
    """Answers an ActionError with its sentence: a page, a fragment or JSON."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponse | None:
        if isinstance(exception, OperationalError):
            logger.error("The database did not answer", exc_info=exception)
            exception = Unavailable(_(BUSY))
        if not isinstance(exception, ActionError):
            return None
        response = refusal(request, exception)
        if isinstance(exception, (TooFast, Unavailable)):
            response["Retry-After"] = "10"
        return response


def refusal(request: HttpRequest, error: ActionError) -> HttpResponse:
    """The sentence in the form that whoever asked can use."""
    if request.headers.get("HX-Request"):
        response = HttpResponse(
            error.message, status=error.status, content_type="text/plain; charset=utf-8"
        )
        response["HX-Trigger"] = json.dumps({"refused": {"message": error.message}})
        return response
    if wants_json(request):
        body = {"error": error.message, "code": error.code}
        return JsonResponse(body, status=error.status)
    return render(
        request, "workspace/refusal.html", {"error": error}, status=error.status
    )


def wants_json(request: HttpRequest) -> bool:
    """True for a script's request: it asks for JSON, or says it is no navigation."""
    if request.get_preferred_type(["text/html", "application/json"]) == (
        "application/json"
    ):
        return True
    return request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
