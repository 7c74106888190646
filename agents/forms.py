"""Forms of endpoints, models, agents and permissions. The actions decide; these parse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from agents.endpoint_actions import EndpointValues, ModelValues
from agents.endpoints import offered_models
from agents.models import Agent, Endpoint, LanguageModel
from agents.settings_actions import AgentValues
from workspace.models import Workspace

if TYPE_CHECKING:
    ChoiceOfModel = forms.ModelChoiceField[LanguageModel]
else:
    ChoiceOfModel = forms.ModelChoiceField

KINDS = (
    (Endpoint.Kind.CHAT_COMPLETIONS, _("OpenAI-compatible (Chat Completions)")),
    (Endpoint.Kind.ANTHROPIC, _("Anthropic (Messages)")),
)
VISION = (
    (LanguageModel.Vision.UNKNOWN, _("Unknown: try once")),
    (LanguageModel.Vision.YES, _("Yes")),
    (LanguageModel.Vision.NO, _("No")),
)
EFFORTS = (
    ("", _("As the model decides")),
    ("low", _("Low")),
    ("medium", _("Medium")),
    ("high", _("High")),
)


class EndpointForm(forms.Form):
    """The key is write-only: the form never shows what is stored."""

    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("For example “OpenAI”.")
    )
    kind = forms.ChoiceField(label=_("API"), choices=KINDS)
    base_url = forms.CharField(
        label=_("Base address"),
        max_length=300,
        help_text=_("Where the API begins, usually with /v1 at the end."),
        widget=forms.URLInput(attrs={"placeholder": "https://api.openai.com/v1"}),
    )
    key = forms.CharField(
        label=_("API key"),
        max_length=4000,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Stored encrypted and never shown again. Empty: none is needed."),
    )
    drop_key = forms.BooleanField(label=_("Forget the key"), required=False)
    caches_prompts = forms.BooleanField(
        label=_("The service caches prompts"),
        required=False,
        help_text=_(
            "On: requests mark what stays the same, so that it is billed at the cached "
            "price. Off for services that refuse such marks."
        ),
    )
    allow_private = forms.BooleanField(
        label=_("Private address"),
        required=False,
        help_text=_(
            "Server staff only: permit a model server on this machine or network, such "
            "as Ollama or llama.cpp."
        ),
    )

    def __init__(
        self,
        *args: Any,
        endpoint: Endpoint | None = None,
        is_staff: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs["initial"] = _initial_endpoint(endpoint)
        super().__init__(*args, **kwargs)
        if not is_staff:
            del self.fields["allow_private"]
        if endpoint and endpoint.secret:
            key = self.fields["key"]
            key.widget.attrs["placeholder"] = str(_("saved"))
            key.help_text = _("A key is saved. Leave this empty to keep it.")
        else:
            del self.fields["drop_key"]

    def values(self) -> EndpointValues:
        return EndpointValues(**self.cleaned_data)


def _initial_endpoint(endpoint: Endpoint | None) -> dict[str, Any]:
    if endpoint is None:
        return {"caches_prompts": True}
    names = ("name", "kind", "base_url", "caches_prompts", "allow_private")
    return {name: getattr(endpoint, name) for name in names}


def _price(label: Any, help_text: Any = "") -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=6,
        help_text=help_text,
    )


class LanguageModelForm(forms.Form):
    """A model's name, limits and prices."""

    name = forms.CharField(
        label=_("Model"),
        max_length=160,
        help_text=_("Exactly as the service writes it, for example gpt-5-mini."),
    )
    window = forms.IntegerField(
        label=_("Window (tokens)"),
        initial=128_000,
        min_value=1_000,
        help_text=_("How much one request and its answer may hold together."),
    )
    max_output = forms.IntegerField(
        label=_("Longest answer (tokens)"), initial=16_000, min_value=1
    )
    vision = forms.ChoiceField(label=_("Sees images"), choices=VISION)
    price_input = _price(
        _("Price of input"),
        _("US dollars per million tokens, like the three below. Empty: unknown."),
    )
    price_cache_read = _price(_("Price of input read from the cache"))
    price_cache_write = _price(_("Price of input written to the cache"))
    price_output = _price(_("Price of output"))

    def __init__(
        self, *args: Any, model: LanguageModel | None = None, **kwargs: Any
    ) -> None:
        if model:
            names = self.base_fields
            kwargs["initial"] = {name: getattr(model, name) for name in names}
        super().__init__(*args, **kwargs)

    def values(self) -> ModelValues:
        return ModelValues(**self.cleaned_data)


class ModelChoice(ChoiceOfModel):
    """Says whose a model is: two endpoints may offer the same name."""

    def label_from_instance(self, obj: LanguageModel) -> str:
        return f"{obj.name} ({obj.endpoint.name})"


class AgentForm(forms.Form):
    """Who an agent is, which model thinks for it, and how long it may work."""

    name = forms.CharField(
        label=_("Name"),
        max_length=60,
        help_text=_("Small letters, digits and hyphens, such as code-reviewer."),
        widget=forms.TextInput(attrs={"autocapitalize": "none"}),
    )
    title = forms.CharField(
        label=_("Title"), max_length=80, help_text=_("What people see.")
    )
    description = forms.CharField(
        label=_("Description"),
        max_length=300,
        required=False,
        help_text=_("What it is good for, in one sentence."),
    )
    persona = forms.CharField(
        label=_("Persona"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text=_(
            "Instructions that every conversation with this agent starts with. They "
            "count in every request. Takes effect in new conversations."
        ),
    )
    language_model = ModelChoice(
        label=_("Model"),
        queryset=LanguageModel.objects.none(),
        required=False,
        empty_label=_("The workspace's default"),
        help_text=_("Takes effect with the next run."),
    )
    effort = forms.ChoiceField(
        label=_("Effort"),
        choices=EFFORTS,
        required=False,
        help_text=_("How long the model thinks, where its service lets one choose."),
    )
    max_rounds = forms.IntegerField(
        label=_("Most rounds of a run"),
        initial=500,
        min_value=1,
        max_value=10_000,
        help_text=_("At a limit the agent reports what it has and stops."),
    )
    max_seconds = forms.IntegerField(
        label=_("Longest run (seconds)"),
        initial=6 * 3600,
        min_value=10,
        max_value=7 * 86_400,
    )
    max_tokens = forms.IntegerField(
        label=_("Most tokens of a run"),
        required=False,
        min_value=1_000,
        help_text=_("Input and output of all its rounds. Empty: no limit."),
    )

    def __init__(
        self,
        *args: Any,
        workspace: Workspace,
        agent: Agent | None = None,
        **kwargs: Any,
    ) -> None:
        if agent:
            names = self.base_fields
            kwargs["initial"] = {name: getattr(agent, name) for name in names}
        super().__init__(*args, **kwargs)
        choice = self.fields["language_model"]
        assert isinstance(choice, ModelChoice)
        choice.queryset = offered_models(workspace)
        if agent:
            self.fields["name"].disabled = True

    def values(self) -> AgentValues:
        return AgentValues(**self.cleaned_data)


class PermissionsForm(forms.Form):
    """One rule a line."""

    deny = forms.CharField(
        label=_("Deny"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_(
            "Refused, whatever else is said. A tool's name alone takes the tool away "
            "altogether."
        ),
    )
    ask = forms.CharField(
        label=_("Ask"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("A person is asked each time, before anything happens."),
    )
    allow = forms.CharField(
        label=_("Allow"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=_("Runs without asking, at every approval level."),
    )

    def __init__(self, *args: Any, workspace: Workspace, **kwargs: Any) -> None:
        rules = workspace.permission_rules
        kwargs["initial"] = {
            name: "\n".join(rules.get(name, ())) for name in self.base_fields
        }
        super().__init__(*args, **kwargs)

    def values(self) -> dict[str, list[str]]:
        return {name: text.splitlines() for name, text in self.cleaned_data.items()}
