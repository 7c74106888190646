"""What docker/ names exists, starts as nobody special, and hides no default secret.

No engine is needed: the files are read, and the probe runs as a container runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command, load_command_class

from tests.test_docs import read_variables

ROOT = Path(__file__).resolve().parent.parent
DOCKER = ROOT / "docker"
OURS = ("prepare", "web-1", "web-2", "worker-1", "worker-2", "beat")
SECRET = re.compile(r"PASSWORD|SECRET|_KEY|KEYS|TOKEN")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("compose.yaml"))
    return loaded


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found


def read(name: str) -> str:
    return (DOCKER / name).read_text(encoding="utf-8")


def example() -> dict[str, str]:
    """What .env.example sets or shows commented out."""
    return dict(re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", read(".env.example"), re.M))


def setting_of(variable: str) -> str:
    return variable.removesuffix("_FILE") if SECRET.search(variable) else variable


def seconds(text: str) -> int:
    assert text.endswith("s"), text
    return int(text.removesuffix("s"))


def test_everything_runs_twice_that_people_wait_for(services):
    assert {*OURS, "proxy", "postgres", "valkey"} == set(services)
    assert services["web-1"] == services["web-2"]
    assert services["worker-1"] == services["worker-2"]


def test_every_variable_of_our_containers_is_a_setting(services):
    known = read_variables()
    known |= {f"{name}_FILE" for name in known}
    for name in OURS:
        assert set(services[name]["environment"]) - known == set()
    assert set(example()) - read_variables() == set()


def test_every_variable_that_compose_asks_for_is_in_the_example(services):
    asked = set(re.findall(r"\$\{([A-Z_]+)", read("compose.yaml")))
    assert {"PUBLIC_URL", "ALLOWED_HOSTS"} <= asked
    assert asked - set(example()) == set()
    passed_on = {
        name
        for name, value in services["web-1"]["environment"].items()
        if value is None or "${" in value
    }
    assert set(example()) - passed_on == set()


def test_no_secret_has_a_value_that_would_reach_production(services):
    assert {name for name in example() if SECRET.search(name)} == set()
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable) or variable.startswith("DATABASE_URL"):
                assert value is None or value.startswith("/run/secrets/"), (
                    name,
                    variable,
                )
            assert "@" not in (value or ""), f"{name}: {variable} holds a password?"


def test_secrets_are_files_that_the_repository_cannot_hold(compose):
    for secret in compose["secrets"].values():
        assert secret["file"].startswith("./secrets/")
    ignored = read(".gitignore").splitlines()
    assert {"secrets/", ".env"} <= set(ignored)
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in sent
    assert not [line for line in sent if line.startswith(("!docker/s", "!var", "!."))]


def test_used_secrets_volumes_and_networks_are_declared(compose, services):
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert set(service["networks"]) <= set(compose["networks"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DOCKER / source).is_file()
            else:
                assert source in compose["volumes"]


def test_the_database_and_the_broker_are_on_the_inner_network_alone(compose, services):
    assert compose["networks"]["data"] == {"internal": True}
    for name in ("postgres", "valkey"):
        assert services[name]["networks"] == ["data"]
    published = [name for name, service in services.items() if "ports" in service]
    assert published == ["proxy"]


def test_every_container_has_a_health_check_a_restart_policy_and_fixed_files(services):
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert "no-new-privileges:true" in service["security_opt"], name
        if name == "prepare":
            assert service["restart"] == "no"
            continue
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["restart"] == "unless-stopped", name


def test_our_containers_share_the_folder_and_hold_no_capability(services):
    for name in OURS:
        assert services[name]["volumes"] == ["var:/var/lib/tallyroom"]
        assert services[name]["environment"]["VAR_DIR"] == "/var/lib/tallyroom"
        assert services[name]["cap_drop"] == ["ALL"]
        assert "cap_add" not in services[name]
        assert "privileged" not in services[name]


def test_our_containers_wait_for_the_migrated_database(services):
    for name in set(OURS) - {"prepare"}:
        wanted = services[name]["depends_on"]
        assert wanted["prepare"] == {"condition": "service_completed_successfully"}
        assert wanted["valkey"] == {"condition": "service_healthy"}
    before = services["prepare"]["depends_on"]
    assert before == {"postgres": {"condition": "service_healthy"}}


def test_a_stopping_worker_has_time_to_drain(services):
    drain = int(example()["DRAIN_SECONDS"])
    for name in ("worker-1", "worker-2"):
        assert f":-{drain}}}" in services[name]["environment"]["DRAIN_SECONDS"]
        assert seconds(services[name]["stop_grace_period"]) >= drain + 10


def test_postgresql_takes_as_many_connections_as_the_pools_may_open(services):
    line = services["postgres"]["command"][-1]
    pool = int(example()["DATABASE_POOL_SIZE"])
    assert int(line.removeprefix("max_connections=")) > len(OURS) * pool


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_of_manage_py_with_options_it_knows(services, name):
    command, *options = services[name]["command"]
    parser = load_command_class("agents", command).create_parser("manage.py", command)
    parser.parse_args(options)


def test_the_image_runs_as_an_ordinary_user_and_checks_its_packages():
    text = read("Dockerfile")
    final = text.rsplit("\nFROM ", 1)[1]
    users = re.findall(r"^USER (\S+)", final, re.M)
    assert users == ["tallyroom"]
    assert "useradd" in final
    assert "--require-hashes" in text
    assert "/healthz" in read("probe.py")
    assert re.search(
        r'^HEALTHCHECK .*\\\n +CMD \[.*"docker/probe.py", "web"', final, re.M
    )


def test_no_file_names_a_package_index_or_an_unpinned_image():
    for path in DOCKER.iterdir():
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"index-url|PIP_INDEX|trusted-host", text), path
    images = re.findall(r"image: (\S+)|PYTHON=(\S+)", read("compose.yaml"))
    for image in filter(None, (first or second for first, second in images)):
        assert ":" in image
        assert not image.endswith(":latest")


def test_the_workers_profile_leaves_what_bubblewrap_needs_and_no_more(services):
    options = services["worker-1"]["security_opt"]
    assert "seccomp=./seccomp.json" in options
    assert not [one for one in services["web-1"]["security_opt"] if "seccomp" in one]
    [rule] = json.loads(read("seccomp.json"))["syscalls"]
    needed = {"clone", "clone3", "unshare", "mount", "umount2", "pivot_root", "prctl"}
    assert rule["action"] == "SCMP_ACT_ERRNO"
    assert needed.isdisjoint(rule["names"])
    assert {"bpf", "kexec_load", "keyctl", "io_uring_setup"} <= set(rule["names"])


def test_the_proxy_keeps_the_simulator_in_and_holds_nothing_back(services):
    text = read("Caddyfile")
    assert "respond @simulator 404" in text
    assert "flush_interval -1" in text
    [upstreams] = re.findall(r"\{\$WEB_ADDRESSES:([^}]+)\}", text)
    assert upstreams.split() == ["web-1:8000", "web-2:8000"]
    assert set(services["proxy"]["depends_on"]) == {"web-1", "web-2"}


def test_processes_refuse_to_run_on_keys_of_their_own(settings, var_dir):
    settings.FERNET_KEYS = []
    for command in ("web", "worker"):
        with pytest.raises(CommandError, match="manage.py prepare"):
            call_command(command)


def test_a_worker_names_the_queues_when_one_is_unknown(settings):
    with pytest.raises(CommandError, match="choose from turns, children, background"):
        call_command("worker", "letters")


# The probe, as the engine calls it


def probe(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-IS", str(DOCKER / "probe.py"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


class Healthz(BaseHTTPRequestHandler):
    """Answers as workspace.health does; anything but the expected host gets 400."""

    state = {"database": True, "broker": True, "worker": False}

    def do_GET(self) -> None:
        fits = self.path == "/healthz" and self.headers["Host"] == "agents.example.org"
        self.send_response(503 if fits else 400)
        self.end_headers()
        self.wfile.write(json.dumps(self.state if fits else {}).encode())

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def port():
    server = HTTPServer(("127.0.0.1", 0), Healthz)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield str(server.server_port)
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_web_process_without_workers_is_well(port):
    assert probe("web", port, ALLOWED_HOSTS=".agents.example.org").returncode == 0


def test_a_web_process_without_its_broker_is_not_well(port, monkeypatch):
    monkeypatch.setitem(Healthz.state, "broker", False)
    answer = probe("web", port, ALLOWED_HOSTS="agents.example.org")
    assert answer.returncode == 1
    assert answer.stderr == "not reached: broker\n"


def test_a_web_process_that_is_gone_is_not_well(port, unused_tcp_port):
    answer = probe("web", str(unused_tcp_port))
    assert answer.returncode == 1
    assert "does not answer" in answer.stderr


def test_a_process_is_well_as_long_as_it_touches_its_file(tmp_path):
    file = tmp_path / "alive"
    assert probe("file", str(file), "30").returncode == 1
    file.touch()
    assert probe("file", str(file), "30").returncode == 0
    os.utime(file, (time.time() - 31, time.time() - 31))
    assert "was touched 31 s ago" in probe("file", str(file), "30").stderr


def test_the_probe_says_how_it_is_called():
    answer = probe("everything")
    assert answer.returncode == 1
    assert answer.stderr.startswith("usage: ")
