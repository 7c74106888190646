"""Settings from the environment: what is read, what is refused, what is safe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from workspace import environment, health
from workspace.var import LONGEST_SOCKET_PATH, broker_socket, read_key

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("read", "value", "sentence"),
    [
        (lambda: environment.flag("X", default=True), "maybe", "set it to on or off"),
        (lambda: environment.whole("X", 1, least=1), "0", "must be 1 or more"),
        (lambda: environment.whole("X", 1), "1.5", "must be a whole number"),
        (lambda: environment.number("X", 1), "nan", "must be 0 or more"),
        (lambda: environment.number("X", 1), "ten", "must be a number"),
        (
            lambda: environment.choice("X", "a", options=("a", "b")),
            "c",
            "set it to a or b",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_name(
    monkeypatch, read, value, sentence
):
    monkeypatch.setenv("X", value)
    with pytest.raises(ImproperlyConfigured, match=sentence) as refusal:
        read()
    assert str(refusal.value).startswith("X is ")


def test_a_secret_may_come_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("hidden\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "key"))
    assert environment.secret("X") == "hidden"
    monkeypatch.setenv("X_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="X_FILE names"):
        environment.secret("X")


def test_a_database_url_is_taken_apart():
    found = environment.database(
        "postgres://us%40er:p%2Fw@db:6432/name?sslmode=require", sqlite={}
    )
    assert found["USER"] == "us@er"
    assert found["PASSWORD"] == "p/w"
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db", "6432", "name")
    assert found["OPTIONS"] == {"sslmode": "require"}


def test_a_long_folder_has_its_socket_where_the_kernel_takes_it(tmp_path):
    short, long = Path("/tmp/var"), tmp_path / ("x" * 120)
    assert broker_socket(short) == short / "valkey.sock"
    assert len(os.fsencode(broker_socket(long))) <= LONGEST_SOCKET_PATH
    assert broker_socket(long) == broker_socket(long)
    assert broker_socket(long) != broker_socket(long / "y")


def test_a_key_that_nobody_made_yet_is_empty(tmp_path):
    assert read_key(tmp_path / "none") == ""


def test_the_deployment_check_is_clean_behind_tls(tmp_path):
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={
            **os.environ,
            "PUBLIC_URL": "https://agents.example.org",
            "ALLOWED_HOSTS": "agents.example.org",
            "VAR_DIR": str(tmp_path),
            "SECRET_KEY": "aB3$x" * 20,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.django_db
def test_the_probe_names_what_does_not_answer(monkeypatch):
    monkeypatch.setattr(health, "FRESH_SECONDS", 30)
    health.show_worker_alive()
    assert Client().get("/healthz").json() == {
        "database": True,
        "broker": True,
        "worker": True,
    }
    health.cache.delete(health.WORKER_KEY)
    response = Client().get("/healthz")
    assert response.status_code == 503
    assert response.json()["worker"] is False
