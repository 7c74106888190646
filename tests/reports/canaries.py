"""Secrets that are planted in an installation and must come out nowhere.

They are made here, for one session, and look like nothing a filter could know by its
shape; all but one, which has the shape of a key.
"""

from __future__ import annotations

import secrets


def canary(place: str) -> str:
    return f"zq{place}{secrets.token_hex(12)}"


#: By the variable of the installation's environment.
ENVIRONMENT = {
    "EMAIL_HOST": "127.0.0.1",
    "EMAIL_PASSWORD": canary("mail"),
    "OIDC_SERVER_URL": "http://127.0.0.1:9/oidc",
    "OIDC_CLIENT_ID": "tallyroom",
    "OIDC_CLIENT_SECRET": canary("oidc"),
    "SOME_OTHER_API_KEY": canary("environ"),
}
#: What an endpoint's key is.
ENDPOINT_KEY = canary("endpoint")
#: What a model types into a command, in the shape that keys have.
ARGUMENT = f"sk-{secrets.token_hex(20)}"
