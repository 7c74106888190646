"""The site's addresses."""

from django.contrib import admin
from django.urls import include, path

from workspace.health import healthz

# Django tries them in order: what every message passes comes first.
urlpatterns = [
    path("", include("agents.urls")),
    path("healthz", healthz, name="healthz"),
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("simulator/", include("agents.simulator.urls")),
    path("", include("workspace.pages_urls")),
    path("", include("observability.urls")),
]
