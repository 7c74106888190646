"""Typed readers of the environment, for settings.py alone.

A wrong value ends the start with a sentence that names the variable.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def flag(name: str, *, default: bool) -> bool:
    value = text(name, "on" if default else "off").lower()
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; set it to on or off.")


def choice(name: str, default: str, *, options: tuple[str, ...]) -> str:
    value = text(name, default).lower()
    if value not in options:
        known = " or ".join(options)
        raise ImproperlyConfigured(f"{name} is {value!r}; set it to {known}.")
    return value


def number(name: str, default: float, *, least: float = 0) -> float:
    value = text(name, str(default))
    try:
        result = float(value)
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} is {value!r}; it must be a number."
        ) from None
    if not least <= result < float("inf"):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be {least} or more.")
    return result


def whole(name: str, default: int, *, least: int = 0) -> int:
    value = number(name, default, least=least)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number.")
    return int(value)


def words(name: str, default: str = "") -> list[str]:
    """A list written with commas."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def ports(name: str, default: str) -> list[int]:
    """Numbers of ports, written with commas."""
    found = words(name, default)
    if not all(port.isdecimal() and 0 < int(port) < 65_536 for port in found):
        raise ImproperlyConfigured(
            f"{name} is {','.join(found)!r}; write port numbers with commas: 80,443."
        )
    return [int(port) for port in found]


def secret(name: str) -> str:
    """The variable itself, or the content of the file that <name>_FILE names."""
    path = text(f"{name}_FILE")
    if not path:
        return text(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE names {path!r}, which cannot be read: {error.strerror}."
        ) from None


def database(url: str, *, sqlite: dict[str, object]) -> dict[str, object]:
    """Django's description of `sqlite:///path` or `postgres://user:key@host/name`.

    `sqlite` holds the OPTIONS of a SQLite file.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}.") from None
    if parts.scheme == "sqlite" and len(parts.path) > 1:
        return sqlite_file(unquote(parts.path[1:]), sqlite)
    if parts.scheme in {"postgres", "postgresql"} and len(parts.path) > 1:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path[1:]),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(port or ""),
            "OPTIONS": dict(parse_qsl(parts.query)),
        }
    raise ImproperlyConfigured(
        f"DATABASE_URL starts with {parts.scheme or 'nothing'!r}; write "
        "sqlite:////absolute/file or postgres://user:password@host:5432/name."
    )


def sqlite_file(name: str, options: dict[str, object]) -> dict[str, object]:
    # The test database is a file too: a memory database has other locks.
    return {
        "ENGINE": "workspace.sqlite",
        "NAME": name,
        "OPTIONS": options,
        "TEST": {"NAME": f"{name}.test"},
    }
