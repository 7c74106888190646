"""A form row for one setting, by the kind of its value; and the form of an import."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents.config.reading import LARGEST
from agents.config.schema import Key

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

CHOICES = {
    "allowlist": _("Keep only these (allowlist)"),
    "additive": _("Add these to the default (additive)"),
}


class SettingForm(forms.Form):
    """One setting of one layer. `seen` is what the page showed; it is not for people."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, key: Key, own: Any, now: Any, **kwargs: Any) -> None:
        """`own` is the layer's value, None if unset; `now` the one that holds.

        A union begins with nothing of its own: lower layers count in any case.
        """
        self.key = key
        lower = key.default if key.about.merge == "union" else now
        shown = lower if own is None else own
        kwargs["initial"] = {"seen": json.dumps(own), "value": as_text(key, shown)}
        kwargs["auto_id"] = f"id_{key.name.replace('.', '_')}_%s"
        super().__init__(*args, **kwargs)
        self.fields["value"] = _field(key)

    def value(self) -> Any:
        """What was entered, as JSON would hold it; the action checks it."""
        text: str = self.cleaned_data["value"]
        if self.key.kind == "flag":
            return text == "true"
        if self.key.kind == "names":
            return [one.strip() for one in text.splitlines() if one.strip()]
        if self.key.kind in ("number", "number or word"):
            return _number(text)
        return text.strip()

    def see(self, own: Any) -> None:
        """Show the layer's value of now as the one that the person decides upon."""
        self.data = dict(self.data.items()) | {"seen": json.dumps(own)}

    def seen_value(self) -> Any:
        try:
            return json.loads(self.cleaned_data["seen"] or "null")
        except json.JSONDecodeError:
            return None


def as_text(key: Key, value: Any) -> str:
    """A value as its field shows it."""
    if value is None:
        return ""
    if key.kind == "flag":
        return "true" if value else "false"
    return "\n".join(value) if key.kind == "names" else str(value)


def _number(text: str) -> Any:
    """The number, or the text itself: the refusal then shows what was typed."""
    plain = text.strip().replace(",", "")
    return int(plain) if plain.lstrip("-").isdecimal() else text.strip()


def _field(key: Key) -> forms.Field:
    label = str(key.about.title)
    if key.kind == "flag":
        states = (("true", _("On")), ("false", _("Off")))
        return forms.ChoiceField(label=label, choices=states)
    if key.kind == "choice":
        words = [(word, CHOICES.get(word, word)) for word in key.choices]
        return forms.ChoiceField(label=label, choices=words)
    if key.kind == "names":
        return forms.CharField(
            label=label,
            help_text=_("One name a line. Empty is a list of none."),
            required=False,
            widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        )
    if key.kind == "text":
        return forms.CharField(label=label, widget=forms.Textarea(attrs={"rows": 12}))
    entry = forms.TextInput(attrs={"inputmode": "numeric"})
    return forms.CharField(label=label, widget=entry, max_length=20)


class ImportForm(forms.Form):
    """Settings as JSON, typed or from a file."""

    text = forms.CharField(
        label=_("Settings as JSON"),
        required=False,
        max_length=LARGEST,
        help_text=_(
            "Nested or with dotted names; comments and trailing commas may stay. What is "
            "not named stays as it is; null takes a setting back."
        ),
        widget=forms.Textarea(
            attrs={
                "rows": 8,
                "spellcheck": "false",
                "placeholder": '{"tools": {"eager": ["read_file", "shell"]}}',
            }
        ),
    )
    file = forms.FileField(label=_("Or a file"), required=False)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        file: UploadedFile[Any] | None = values.get("file")
        if file is not None:
            values["text"] = self._content(file)
        if not values.get("text"):
            raise forms.ValidationError(_("Enter the settings, or choose a file."))
        return values

    def _content(self, file: UploadedFile[Any]) -> str:
        if (file.size or 0) > LARGEST:
            raise forms.ValidationError(
                _("Settings are at most a million characters long.")
            )
        try:
            return str(file.read(), "utf-8")
        except UnicodeDecodeError:
            raise forms.ValidationError(_("The file is not text in UTF-8.")) from None
