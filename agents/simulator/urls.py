"""`/simulator/requests`; everything else under `/simulator` is `app.application`."""

from django.urls import path

from agents.simulator import views

app_name = "simulator"
urlpatterns = [path("requests", views.requests, name="requests")]
