"""A conversation's folder and a call's context that remembers what was seen."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agents.errors import ToolError
from agents.interrupts import Interrupt
from agents.tools.base import ToolContext, ToolResult
from agents.tools.registry import resolve


@dataclass
class Agent:
    """Calls tools by name the way `calls.py` does: what it raises is a failed result."""

    root: Path
    seen: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, bytes] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    interrupt: Interrupt = field(default_factory=Interrupt)

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            root=self.root,
            workspace_id=uuid.uuid4(),
            conversation_id=uuid.uuid4(),
            run_id=uuid.uuid4(),
            call_id="call_1",
            interrupt=self.interrupt,
            author_name="김철수",
            author_email="kim@example.org",
            last_seen=self.seen.get,
            stored_output=self.outputs.get,
            progress=self.told.append,
        )

    def call(self, name: str, **arguments: object) -> ToolResult:
        return self.call_as(self.context, name, **arguments)

    def call_read_only(self, name: str, **arguments: object) -> ToolResult:
        return self.call_as(replace(self.context, read_only=True), name, **arguments)

    def call_with_network(self, name: str, **arguments: object) -> ToolResult:
        return self.call_as(replace(self.context, network=True), name, **arguments)

    def call_as(
        self, context: ToolContext, name: str, **arguments: object
    ) -> ToolResult:
        tool = resolve(name)
        assert tool is not None
        assert tool.run is not None
        try:
            result = tool.run(context, tool.arguments.model_validate(arguments))
        except ToolError as error:
            return ToolResult.failed(error.code, error.message)
        if "sha256" in result.meta:
            self.seen[result.meta["path"]] = result.meta["sha256"]
        return result


@pytest.fixture
def agent(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Agent(root)
