"""The modes: what a conversation is for, and which tools that admits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.tools.base import Tag, Tool

#: How far a tool reaches, from looking to changing the server.
TIERS: dict[Tag, int] = {
    "read": 0,
    "delegate": 0,
    "network": 1,
    "write": 1,
    "exec": 2,
    "send": 3,
    "config": 4,
}

#: Without these nothing that is on demand could be found and called.
BRIDGE = ("tool_search", "tool_call")
DISCOVERY = (*BRIDGE, "list_my_tools")

#: Where plans are written while nothing else may be: Markdown, in this folder itself.
PLANS = ".tallyroom/plans/"
#: The tools that may write there.
PLAN_WRITERS = ("write_file", "edit_file")

#: A person must always be reachable.
PINNED = ("ask_user",)


@dataclass(frozen=True, slots=True)
class Mode:
    """What a mode admits, and what it always declares.

    Tools above the `ceiling` are denied, so are those that an allow-list (`allowed`)
    lacks; `files_read_only` denies those that change files, but for plans
    where there are `plan_files`: each call shows which file it is about. `required` and `exits` are
    pinned: they beat every denial of the mode.
    """

    name: str
    title: str
    text: str
    ceiling: Tag = "config"
    files_read_only: bool = False
    plan_files: bool = False
    allowed: frozenset[str] | None = None
    required: tuple[str, ...] = ()
    exits: tuple[str, ...] = ()
    residents: tuple[str, ...] = ()

    @property
    def pinned(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.required, *self.exits, *PINNED)))

    def for_child(self) -> Mode:
        """What it admits of a child's tools: the mode's own verbs are the parent's."""
        return replace(self, required=(), exits=(), residents=())

    def refuses(self, tool: Tool) -> str:
        """Why the mode denies the tool; "" when it admits it."""
        if tool.name in self.pinned:
            return ""
        if TIERS[tool.tag] > TIERS[self.ceiling]:
            return f"above the ceiling of the mode {self.name}: {self.ceiling}"
        if self.allowed is not None and tool.name not in {*self.allowed, *DISCOVERY}:
            return f"not on the allow-list of the mode {self.name}"
        writes_plans = self.plan_files and tool.name in PLAN_WRITERS
        changes_files = tool.tag == "write" and bool(tool.path_arguments)
        if self.files_read_only and changes_files and not writes_plans:
            return f"files are read-only in the mode {self.name}"
        return ""


MODES = {
    mode.name: mode
    for mode in (
        Mode("chat", "Agent", ""),
        Mode(
            "plan",
            "Plan",
            "You plan; you change nothing. Look until you understand, then write a plan "
            "that somebody else could carry out.",
            ceiling="write",
            files_read_only=True,
            plan_files=True,
            required=("exit_plan_mode",),
            exits=("exit_plan_mode",),
            residents=("todo_write",),
        ),
        Mode(
            "review",
            "Review",
            "You review; you change nothing. Name each finding with its place, why it "
            "matters, and what would mend it.",
            ceiling="write",
            files_read_only=True,
            required=("structured_output",),
            residents=("git_diff", "git_log"),
        ),
        Mode(
            "orchestrate",
            "Orchestrate",
            "You divide the work and hand it to agents; you check what comes back.",
            residents=("agent", "list_agents", "todo_write", "ticket_create"),
        ),
    )
}
