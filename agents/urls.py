"""Pages of this app."""

from __future__ import annotations

from django.urls import URLPattern, path

from agents import settings_urls, views

CHAT = "w/<slug:slug>/c/<uuid:conversation_id>/"

app_name = "agents"
urlpatterns: list[URLPattern] = [
    *settings_urls.urlpatterns,
    path("w/<slug:slug>/new", views.new, name="new"),
    path(CHAT + "messages", views.post, name="post"),
    path(CHAT + "stop", views.stop, name="stop"),
    path(CHAT + "retry", views.retry, name="retry"),
    path(CHAT + "resend", views.resend, name="resend"),
    path(CHAT + "withdraw", views.withdraw, name="withdraw"),
    path(CHAT + "level", views.level, name="level"),
    path(CHAT + "waits", views.waits, name="waits"),
    path(CHAT + "waits/<uuid:wait_id>", views.answer, name="answer"),
    path(CHAT + "figures", views.figures, name="figures"),
]
