"""The form of a workspace's own skill. The action decides; this parses."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents.context.skills import LARGEST_BODY, LONGEST_DESCRIPTION, LONGEST_WHEN
from agents.instruction_actions import SkillValues, version_of
from agents.models import WorkspaceSkill


class SkillForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=64,
        help_text=_("People call it by /name. For example “release-notes”."),
    )
    description = forms.CharField(
        label=_("Description"),
        max_length=LONGEST_DESCRIPTION,
        help_text=_("One sentence. It stands in every request; agents choose by it."),
    )
    when_to_use = forms.CharField(
        label=_("When to use it"), max_length=LONGEST_WHEN, required=False
    )
    paths = forms.CharField(
        label=_("Only for these paths"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_(
            "One pattern a line, such as web/**/*.css. Then it is listed only once an "
            "agent has touched such a file. Empty: always listed."
        ),
    )
    allowed_tools = forms.CharField(
        label=_("Tools it counts on"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("One a line. It grants nothing; agents are told what is missing."),
    )
    body = forms.CharField(
        label=_("Instructions"),
        max_length=LARGEST_BODY,
        widget=forms.Textarea(attrs={"rows": 16}),
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, data: Any = None, *, skill: WorkspaceSkill | None = None
    ) -> None:
        super().__init__(data, initial=_initial(skill) if skill else None)
        if skill:
            self.fields["name"].widget.attrs["readonly"] = True

    def values(self) -> SkillValues:
        found = self.cleaned_data
        return SkillValues(
            name=found["name"],
            description=found["description"],
            body=found["body"],
            when_to_use=found["when_to_use"],
            paths=_lines(found["paths"]),
            allowed_tools=_lines(found["allowed_tools"]),
        )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _initial(skill: WorkspaceSkill) -> dict[str, str]:
    return {
        "name": skill.name,
        "description": skill.description,
        "when_to_use": skill.when_to_use,
        "paths": "\n".join(skill.paths),
        "allowed_tools": "\n".join(skill.allowed_tools),
        "body": skill.body,
        "version": version_of(skill),
    }
