"""Addresses of people, workspaces and settings; part of the `workspace` namespace."""

from __future__ import annotations

from django.urls import URLPattern, path

from workspace import account_views, audit_views
from workspace import people_views as views

urlpatterns: list[URLPattern] = [
    path("", views.home, name="home"),
    path("setup/<str:token>/", account_views.setup, name="setup"),
    path("join/<str:token>/", account_views.invitation, name="invitation"),
    path("account/", account_views.account, name="account"),
    path(
        "account/sessions/end",
        account_views.end_other_sessions,
        name="end_other_sessions",
    ),
    path(
        "account/sessions/<int:pk>/end", account_views.end_session, name="end_session"
    ),
    path("w/<slug:slug>/settings/", views.general, name="settings"),
    path("w/<slug:slug>/settings/leave", views.leave, name="leave"),
    path("w/<slug:slug>/settings/transfer", views.transfer, name="transfer"),
    path("w/<slug:slug>/settings/delete", views.delete, name="delete"),
    path("w/<slug:slug>/settings/members/", views.members, name="members"),
    path("w/<slug:slug>/settings/members/<int:pk>/role", views.role, name="role"),
    path("w/<slug:slug>/settings/members/<int:pk>/remove", views.remove, name="remove"),
    path(
        "w/<slug:slug>/settings/invitations/<uuid:pk>/revoke",
        views.revoke_invitation,
        name="revoke_invitation",
    ),
    path("w/<slug:slug>/settings/audit/", audit_views.log, name="audit"),
    path(
        "w/<slug:slug>/settings/audit/download",
        audit_views.download,
        name="audit_download",
    ),
]
