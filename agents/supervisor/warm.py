"""What a process does before it counts as ready, so that the first message is quick."""

from __future__ import annotations

from django.db import connection
from django.urls import get_resolver, reverse


def warm_web() -> None:
    """Import every view and compile the sign-in page with what it extends."""
    from django.template.loader import get_template

    get_resolver().url_patterns  # noqa: B018 - reading it imports the views
    reverse("account_login")
    get_template("account/login.html")
    connection.close()


def warm_worker() -> None:
    """Import the loop and its tools; load the encoding that counts tokens."""
    import agents.loop  # noqa: F401
