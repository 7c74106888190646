"""Forms of accounts, workspaces and members. The actions decide; these parse."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from workspace.access import ROLES, at_least
from workspace.actions.people import LONGEST_NAME
from workspace.models import Role, Workspace

THEMES = (
    ("auto", _("As the device says")),
    ("light", _("Light")),
    ("dark", _("Dark")),
)
ROLE_LABELS = {
    Role.VIEWER: _("Viewer: reads everything, changes nothing"),
    Role.MEMBER: _("Member: writes, and decides about own turns"),
    Role.ADMIN: _("Admin: manages agents, permissions and members"),
    Role.OWNER: _("Owner: can also transfer or delete the workspace"),
}


def grantable(role: str) -> list[tuple[str, Any]]:
    """The roles that somebody with this one may give, with what each may do."""
    return [
        (known.value, ROLE_LABELS[known]) for known in ROLES if at_least(role, known)
    ]


class NewAccountForm(forms.Form):
    """A person's first sign-in: from the set-up link or an invitation."""

    display_name = forms.CharField(
        label=_("Your name"),
        max_length=LONGEST_NAME,
        required=False,
        help_text=_("How others see you. Without one they see the username."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    username = forms.CharField(
        label=_("Username"),
        max_length=150,
        help_text=_("For signing in. Letters, digits and @ . + - _ only."),
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none"}
        ),
    )
    email = forms.EmailField(
        label=_("Email"),
        required=False,
        help_text=_("For a forgotten password. Nothing else is sent there."),
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        help_text=_("At least 8 characters. A sentence is easier than a word."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    password_again = forms.CharField(
        label=_("Password again"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        again = values.pop("password_again", None)
        if "password" in values and again is not None and again != values["password"]:
            self.add_error(
                "password_again",
                ValidationError(_("The two passwords differ; type both again.")),
            )
        return values


class NewWorkspaceForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        help_text=_("For example the team or the project: “Website”."),
    )


class GeneralForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        help_text=_("The address of the workspace stays as it is: links keep working."),
    )
    time_zone = forms.ChoiceField(
        label=_("Time zone"),
        choices=lambda: [(zone, zone) for zone in sorted(available_timezones())],
        help_text=_("Dates and times on this workspace's pages are shown in it."),
    )
    network = forms.BooleanField(
        label=_("Let commands reach the network"),
        required=False,
        help_text=_(
            "Off: commands that agents run are cut off from every network. On: they "
            "can download, and can also send what they read. Takes effect with the "
            "next command."
        ),
    )

    @classmethod
    def of(cls, workspace: Workspace, data: QueryDict | None = None) -> GeneralForm:
        """The form as the workspace is now, or as somebody sent it."""
        return cls(
            data,
            initial={
                "name": workspace.name,
                "time_zone": workspace.time_zone,
                "network": workspace.network,
            },
        )


class InviteForm(forms.Form):
    role = forms.ChoiceField(label=_("Role"))
    email = forms.EmailField(
        label=_("Email"),
        required=False,
        help_text=_(
            "Only the account of this address can use the link. Empty: whoever has it."
        ),
    )

    def __init__(self, *args: Any, inviter_role: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role = self.fields["role"]
        assert isinstance(role, forms.ChoiceField)
        role.choices = grantable(inviter_role)
        role.initial = Role.MEMBER.value


class DeleteWorkspaceForm(forms.Form):
    name = forms.CharField(label=_("Type the workspace's name to confirm"))

    def __init__(self, *args: Any, workspace: Workspace, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.workspace = workspace
        self.fields["name"].widget.attrs["autocomplete"] = "off"

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.workspace.name:
            raise ValidationError(
                _("That is not the name. Nothing was deleted; type %(name)s."),
                params={"name": self.workspace.name},
            )
        return self.workspace.name


class ProfileForm(forms.Form):
    display_name = forms.CharField(
        label=_("Your name"),
        max_length=LONGEST_NAME,
        required=False,
        help_text=_("How others see you. Without one they see the username."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    language = forms.ChoiceField(
        label=_("Language"), choices=lambda: settings.LANGUAGES
    )
    theme = forms.ChoiceField(label=_("Colours"), choices=THEMES)
