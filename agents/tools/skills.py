"""skill_view: the text of a skill, for the work that it is about."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from agents.context.skills import Skill
from agents.context.skills_files import library_of
from agents.errors import ToolError
from agents.tools.base import Arguments, Tool, ToolContext, ToolResult

_MOST_NAMES = 40  # that a refusal lists


class SkillView(Arguments):
    also_called: ClassVar[dict[str, str]] = {"skill": "name", "skill_name": "name"}

    name: str = Field(min_length=1, max_length=200)


def skill_view(ctx: ToolContext, args: SkillView) -> ToolResult:
    """The body, once: while it stands before the model a repeat is one line."""
    library = library_of(ctx.workspace_id, ctx.root)
    wanted = args.name.strip().removeprefix("/")
    skill = library.skills.get(wanted)
    if skill is None:
        raise ToolError(
            _unknown(wanted, library.nearest(wanted), list(library.skills)),
            code="not_found",
        )
    meta = {"skill": skill.name, "skill_sha256": skill.digest}
    if ctx.has_skill(skill.name, skill.digest):
        return ToolResult(
            True,
            f"{skill.name} is loaded already: its text stands above, unchanged.",
            meta={**meta, "again": True},
        )
    return ToolResult(True, skill.shown + _missing(ctx, skill), meta=meta)


def _unknown(name: str, near: list[str], names: list[str]) -> str:
    if near:
        return f"There is no skill {name!r}. Did you mean {', '.join(near)}?"
    if not names:
        return f"There is no skill {name!r}; this workspace has none."
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"There is no skill {name!r}. There are: {shown}{more}."


def _missing(ctx: ToolContext, skill: Skill) -> str:
    """A warning of tools that the skill counts on and this conversation cannot call."""
    missing = ctx.unavailable(skill.allowed_tools)
    if not missing:
        return ""
    return (
        f"\n\n[This skill counts on tools that are not available here: "
        f"{', '.join(missing)}. Work without them, or say so.]"
    )


SKILL_VIEW = Tool(
    name="skill_view",
    group="skills",
    description="Read a skill's instructions by its name.",
    tag="read",
    arguments=SkillView,
    run=skill_view,
    idempotent=True,
    main_argument="name",
    hints=("skill", "instructions", "how to", "guide", "스킬", "지침", "방법"),
    aliases=("skill", "view_skill", "use_skill"),
)
TOOLS = (SKILL_VIEW,)
