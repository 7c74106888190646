"""Addresses of the run log."""

from django.urls import path

from observability import insights_views, views

app_name = "observability"
urlpatterns = [
    path("observability/", views.home, name="home"),
    path("w/<str:slug>/observability/insights/", insights_views.page, name="insights"),
    path("w/<str:slug>/settings/agents/<str:name>/logs/", views.logs, name="logs"),
    path("w/<str:slug>/runs/<uuid:run_id>/", views.run, name="run"),
    path(
        "w/<str:slug>/runs/<uuid:run_id>/records",
        views.run_records,
        name="run_records",
    ),
    path(
        "w/<str:slug>/runs/<uuid:run_id>/records.ndjson",
        views.run_ndjson,
        name="run_ndjson",
    ),
]
