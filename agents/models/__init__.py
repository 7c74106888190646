"""What answers: model services, agents, and the runs in which they work."""

from __future__ import annotations

from agents.models.agents import Agent, SeenInstruction, WorkspaceSkill
from agents.models.endpoints import Endpoint, LanguageModel
from agents.models.memory import Memory, MemoryRun
from agents.models.runs import (
    Delegation,
    Lease,
    LoadedTool,
    ModelCall,
    Run,
    ToolCall,
    Wait,
)
from agents.models.servers import McpServer
from agents.models.settings import ModeToolPolicy, Setting

__all__ = [
    "Agent",
    "Delegation",
    "Endpoint",
    "LanguageModel",
    "Lease",
    "LoadedTool",
    "McpServer",
    "Memory",
    "MemoryRun",
    "ModeToolPolicy",
    "ModelCall",
    "Run",
    "SeenInstruction",
    "Setting",
    "ToolCall",
    "Wait",
    "WorkspaceSkill",
]
