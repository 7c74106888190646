"""Addresses of agents, endpoints and permissions; part of the `agents` namespace."""

from __future__ import annotations

from django.urls import URLPattern, path

from agents import (
    config_views,
    group_views,
    instruction_views,
    memory_views,
    policy_views,
    server_views,
)
from agents import settings_views as views

SETTINGS = "w/<str:slug>/settings"
ENDPOINT = f"{SETTINGS}/endpoints/<uuid:pk>"
SERVER = f"{SETTINGS}/servers/<uuid:pk>"

urlpatterns: list[URLPattern] = [
    path(f"{SETTINGS}/agents/", views.agents, name="agents"),
    path(f"{SETTINGS}/agents/new/", views.new_agent, name="new_agent"),
    path(f"{SETTINGS}/agents/<slug:name>/", views.agent, name="agent"),
    path(
        f"{SETTINGS}/agents/<slug:name>/delete",
        views.remove_agent,
        name="delete_agent",
    ),
    path(f"{SETTINGS}/endpoints/", views.endpoints, name="endpoints"),
    path(f"{SETTINGS}/endpoints/new/", views.new_endpoint, name="new_endpoint"),
    path(f"{SETTINGS}/endpoints/default", views.default_model, name="default_model"),
    path(f"{ENDPOINT}/", views.endpoint, name="endpoint"),
    path(f"{ENDPOINT}/test", views.check, name="test_endpoint"),
    path(f"{ENDPOINT}/delete", views.remove_endpoint, name="delete_endpoint"),
    path(f"{ENDPOINT}/models/", views.new_model, name="new_model"),
    path(f"{ENDPOINT}/models/<uuid:model>/", views.model, name="model"),
    path(
        f"{ENDPOINT}/models/<uuid:model>/delete",
        views.remove_model,
        name="delete_model",
    ),
    path(f"{SETTINGS}/servers/", server_views.servers, name="servers"),
    path(
        f"{SETTINGS}/servers/import",
        server_views.import_servers,
        name="import_servers",
    ),
    path(f"{SERVER}/try", server_views.try_server, name="try_server"),
    path(
        f"{SERVER}/disconnect",
        server_views.disconnect_server,
        name="disconnect_server",
    ),
    path(f"{SERVER}/remove", server_views.remove_server, name="remove_server"),
    path(f"{SETTINGS}/permissions/", views.permissions, name="permissions"),
    path(f"{SETTINGS}/rules/", instruction_views.rules, name="rules"),
    path(f"{SETTINGS}/rules/seen", instruction_views.seen, name="rules_seen"),
    path(f"{SETTINGS}/skills/", instruction_views.skills, name="skills"),
    path(f"{SETTINGS}/skills/new/", instruction_views.new_skill, name="new_skill"),
    path(f"{SETTINGS}/skills/<int:pk>/", instruction_views.skill, name="skill"),
    path(
        f"{SETTINGS}/skills/<int:pk>/delete",
        instruction_views.delete_skill,
        name="delete_skill",
    ),
    path(f"{SETTINGS}/policy/", policy_views.workspace_policy, name="policy"),
    path(
        f"{SETTINGS}/policy/effect", policy_views.workspace_effect, name="policy_effect"
    ),
    path(f"{SETTINGS}/groups/", group_views.groups, name="tool_groups"),
    path("server/policy/", policy_views.server_policy, name="server_policy"),
    path(
        "server/policy/effect", policy_views.server_effect, name="server_policy_effect"
    ),
    path(f"{SETTINGS}/memory/", memory_views.memory, name="memory"),
    path(f"{SETTINGS}/memory/<int:key>/", memory_views.note, name="memory_note"),
    path(f"{SETTINGS}/all/", config_views.settings_all, name="settings_all"),
    path(
        f"{SETTINGS}/all/import",
        config_views.import_settings,
        name="import_settings",
    ),
    path(
        f"{SETTINGS}/all/export",
        config_views.export_settings,
        name="export_settings",
    ),
    path(
        f"{SETTINGS}/all/set/<str:name>",
        config_views.change_setting,
        name="change_setting",
    ),
]
