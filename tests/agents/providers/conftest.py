"""A simulator in a process of its own, and what is needed to talk to it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from agents.providers.addresses import AddressPolicy
from agents.providers.base import (
    ENVELOPE,
    Block,
    Completion,
    Message,
    Owner,
    Prompt,
    ToolSpec,
)
from agents.providers.http import Timeouts
from agents.providers.registry import EndpointConfig, make_provider

KEY = "canary-8f3a61c02b9d4e77"
SERVE = (
    "from agents.simulator.serving import serve;"
    "serve('127.0.0.1', 0, lambda url: print(url, flush=True))"
)


@dataclass(frozen=True)
class RunningSimulator:
    """A simulator behind real HTTP."""

    url: str

    def records(self, since: int = 0) -> list[dict[str, Any]]:
        address = self.url.replace("/v1", "/requests")
        answer = httpx.get(address, params={"since": since}, trust_env=False)
        records: list[dict[str, Any]] = answer.json()["requests"]
        return records

    def last_id(self) -> int:
        return max((record["id"] for record in self.records()), default=0)

    def ended(self, since: int, *, within: float = 2.0) -> dict[str, Any]:
        """The first request after `since`, once its end is recorded."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for record in self.records(since):
                if record["ended_at"] is not None:
                    return record
            time.sleep(0.02)
        raise AssertionError(f"No request ended: {self.records(since)}")


@pytest.fixture(scope="session")
def simulator() -> Iterator[RunningSimulator]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield RunningSimulator(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def config(simulator: RunningSimulator, kind: str, **fields: Any) -> EndpointConfig:
    usual = {"timeouts": Timeouts(connect=2, first_byte=5, idle=5), "api_key": KEY}
    policy = AddressPolicy(allow_private=True)
    return EndpointConfig(
        "Testing", kind, simulator.url, policy=policy, **(usual | fields)
    )


@pytest.fixture(params=["chat_completions", "anthropic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider(simulator: RunningSimulator, kind: str) -> Any:
    return make_provider(config(simulator, kind))


def tool(name: str) -> ToolSpec:
    schema = '{"properties":{"path":{"type":"string"}},"type":"object"}'
    return ToolSpec(name, f"Use {name}.", schema, Owner("tools", name, name))


TOOLS = tuple(tool(name) for name in ("list_dir", "read_file", "shell", "write_file"))
SYSTEM = (
    Block("You are careful.", Owner("system", "base", "Base")),
    Block("Today is quiet.", Owner("startup", "env", "Environment")),
)


def user(text: str) -> Message:
    return Message("user", text, Owner("message", f"user-{hash(text)}", "User"))


def answered(completion: Completion) -> Message:
    return Message(
        "assistant",
        completion.text,
        Owner("message", "assistant", "Assistant"),
        completion.tool_calls,
        reasoning=completion.reasoning,
        opaque=completion.opaque,
    )


def result(call_id: str, text: str, *, ok: bool = True) -> Message:
    return Message("tool", text, ENVELOPE, call_id=call_id, ok=ok)


def prompt(*messages: Message, **fields: Any) -> Prompt:
    usual: dict[str, Any] = {"tools": TOOLS, "system": SYSTEM}
    return Prompt(
        "simulator", messages=messages, max_output_tokens=4_000, **(usual | fields)
    )
