"""What an operator sees of endpoints, agents and runs. Keys go in and never come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from agents.endpoint_actions import KEY_STAYS, is_elsewhere, set_default_model
from agents.models import (
    Agent,
    Endpoint,
    LanguageModel,
    ModelCall,
    ModeToolPolicy,
    Run,
    ToolCall,
    Wait,
)
from agents.secrets import encrypt
from workspace.admin import Kept, ReadOnly
from workspace.errors import ActionError

if TYPE_CHECKING:
    EndpointModelForm = forms.ModelForm[Endpoint]
    ModelsInline = admin.TabularInline[LanguageModel, Endpoint]
else:
    EndpointModelForm = forms.ModelForm
    ModelsInline = admin.TabularInline


class EndpointAdminForm(EndpointModelForm):
    """Takes a key, shows none."""

    key = forms.CharField(
        label=_("API key"),
        required=False,
        strip=True,
        max_length=4000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("Stored encrypted and never shown. Empty: keep what is stored."),
    )
    drop_key = forms.BooleanField(label=_("Forget the key"), required=False)

    class Meta:
        model = Endpoint
        fields = (
            "workspace",
            "name",
            "kind",
            "base_url",
            "allow_private",
            "caches_prompts",
            "deleted_at",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["workspace"].required = False
        self._stored_url = self.instance.base_url

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        moved = is_elsewhere(self._stored_url, values.get("base_url", ""))
        replaced = values.get("key") or values.get("drop_key")
        if self.instance.secret and moved and not replaced:
            raise ValidationError(KEY_STAYS)
        return values


class Models(ModelsInline):
    model = LanguageModel
    extra = 0
    readonly_fields = ("is_default",)


@admin.register(Endpoint)
class EndpointAdmin(Kept):
    form = EndpointAdminForm
    list_display = (
        "name",
        "workspace",
        "kind",
        "has_key",
        "allow_private",
        "created_at",
        "deleted_at",
    )
    list_filter = ("kind", "allow_private")
    list_select_related = ("workspace",)
    search_fields = ("name", "workspace__name")
    inlines = (Models,)

    @admin.display(boolean=True, description=_("Key saved"))
    def has_key(self, endpoint: Endpoint) -> bool:
        return bool(endpoint.secret)

    def save_model(
        self, request: HttpRequest, obj: Endpoint, form: Any, change: bool
    ) -> None:
        if key := form.cleaned_data.get("key"):
            obj.secret = encrypt(key)
        elif form.cleaned_data.get("drop_key"):
            obj.secret = ""
        if not change:
            obj.created_by = request.user  # type: ignore[assignment]
        super().save_model(request, obj, form, change)


@admin.register(LanguageModel)
class LanguageModelAdmin(Kept):
    list_display = (
        "name",
        "endpoint",
        "window",
        "max_output",
        "vision",
        "price_input",
        "price_output",
        "is_default",
    )
    list_filter = ("is_default", "vision")
    list_select_related = ("endpoint",)
    readonly_fields = ("is_default",)
    search_fields = ("name", "endpoint__name")
    actions = ("make_server_default",)

    @admin.action(
        description=_("Make it the server's default model"), permissions=("change",)
    )
    def make_server_default(
        self, request: HttpRequest, queryset: QuerySet[LanguageModel]
    ) -> None:
        chosen = list(queryset.select_related("endpoint")[:2])
        if len(chosen) != 1:
            self.message_user(request, _("Choose exactly one model."), messages.ERROR)
            return
        try:
            set_default_model(
                by=request.user,  # type: ignore[arg-type]
                workspace=None,
                model=chosen[0],
            )
        except ActionError as refusal:
            self.message_user(request, refusal.message, messages.ERROR)
        else:
            self.message_user(request, _("Saved. It holds from the next run on."))


@admin.register(Agent)
class AgentAdmin(Kept):
    list_display = ("name", "title", "workspace", "language_model", "max_rounds")
    list_select_related = ("workspace", "language_model")
    search_fields = ("name", "title", "workspace__name")


@admin.register(ModeToolPolicy)
class ToolPolicyAdmin(Kept):
    """The admin's entry leads to the page that knows costs, use and refusals."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("agents:server_policy")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = ModeToolPolicy.objects.filter(pk=object_id).first()
        block = f"?block={row.block}" if row else ""
        return redirect(reverse("agents:server_policy") + block)


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = (
        "id",
        "workspace",
        "agent",
        "state",
        "round",
        "worker",
        "model_name",
        "created_at",
        "ended_at",
    )
    list_filter = ("state", "trigger")
    list_select_related = ("workspace", "agent")
    search_fields = ("id", "worker", "model_name")
    date_hierarchy = "created_at"


@admin.register(Wait)
class WaitAdmin(ReadOnly):
    list_display = ("id", "run", "kind", "outcome", "opened_at", "answered_by")
    list_filter = ("kind", "outcome")
    list_select_related = ("run", "answered_by")


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnly):
    list_display = ("id", "run", "name", "state", "ok", "started_at", "ended_at")
    list_filter = ("state", "ok")
    list_select_related = ("run",)
    search_fields = ("name", "call_id")


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnly):
    list_display = (
        "id",
        "run",
        "round",
        "endpoint_name",
        "model_name",
        "state",
        "input",
        "cache_read",
        "output",
        "cost",
        "at",
    )
    list_filter = ("state",)
    list_select_related = ("run",)
    search_fields = ("model_name", "endpoint_name")
