"""Pages of this app."""

from __future__ import annotations

from django.urls import URLPattern, path

from agents import (
    completion_views,
    erase_views,
    explorer_views,
    help_views,
    instruction_views,
    mode_views,
    model_views,
    settings_urls,
    views,
)

CHAT = "w/<slug:slug>/c/<uuid:conversation_id>/"

app_name = "agents"
urlpatterns: list[URLPattern] = [
    path("w/<slug:slug>/complete", completion_views.complete, name="complete"),
    path("w/<slug:slug>/new", views.new, name="new"),
    path(CHAT + "messages", views.post, name="post"),
    path(CHAT + "stop", views.stop, name="stop"),
    path(CHAT + "retry", views.retry, name="retry"),
    path(CHAT + "resend", views.resend, name="resend"),
    path(CHAT + "withdraw", views.withdraw, name="withdraw"),
    path(CHAT + "level", views.level, name="level"),
    path(CHAT + "waits", views.waits, name="waits"),
    path(CHAT + "children", views.children, name="children"),
    path(CHAT + "waits/<uuid:wait_id>", views.answer, name="answer"),
    path(CHAT + "figures", views.figures, name="figures"),
    path(CHAT + "model/", model_views.model, name="model_choice"),
    path(CHAT + "mode/", mode_views.mode, name="mode_choice"),
    path(CHAT + "tools/", mode_views.tools, name="tools"),
    path(CHAT + "erase", erase_views.erase, name="erase"),
    path(CHAT + "read-anew", instruction_views.read_anew, name="read_anew"),
    path(CHAT + "context/", explorer_views.context, name="context"),
    path(CHAT + "context.json", explorer_views.context_json, name="context_json"),
    path(CHAT + "context/find", explorer_views.find, name="context_find"),
    path(
        CHAT + "context/segments/<slug:digest>",
        explorer_views.segment,
        name="context_segment",
    ),
    path("help/context", help_views.context, name="help_context"),
    *settings_urls.urlpatterns,
]
