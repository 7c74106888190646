"""Pages of people, workspaces and conversations."""

from __future__ import annotations

from django.urls import URLPattern, path

from workspace import attachments_views, files_views, people_urls, views

CHAT = "w/<slug:slug>/c/<uuid:conversation_id>/"

app_name = "workspace"
urlpatterns: list[URLPattern] = [
    *people_urls.urlpatterns,
    path("w/<slug:slug>/", views.conversations, name="conversations"),
    path("w/<slug:slug>/search/", views.search_page, name="search"),
    path("w/<slug:slug>/palette", views.palette, name="palette"),
    path(CHAT, views.conversation, name="conversation"),
    path(CHAT + "entries", views.entries, name="entries"),
    path(CHAT + "entries/<int:seq>/raw", views.entry_raw, name="entry_raw"),
    path(CHAT + "tail", views.tail, name="tail"),
    path(CHAT + "read", views.read, name="read"),
    path(CHAT + "rename", views.rename, name="rename"),
    path(CHAT + "attachments", attachments_views.attach, name="attach"),
    path(
        CHAT + "attachments/<uuid:attachment_id>/remove",
        attachments_views.remove,
        name="remove_attachment",
    ),
    path(
        CHAT + "attachments/<slug:sha256>",
        attachments_views.show,
        name="attachment",
    ),
    path(CHAT + "hide", views.hide, name="hide"),
    path("w/<slug:slug>/files/", files_views.folder, name="files"),
    path("w/<slug:slug>/files/upload", files_views.upload, name="upload"),
    path("w/<slug:slug>/files/view/<path:name>", files_views.view, name="file"),
    path("w/<slug:slug>/files/raw/<path:name>", files_views.raw, name="file_raw"),
]
