"""Pages of this app."""

from __future__ import annotations

from django.urls import URLPattern

from agents.settings_urls import urlpatterns as settings_patterns

app_name = "agents"
urlpatterns: list[URLPattern] = [*settings_patterns]
