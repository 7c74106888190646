"""Sockets of this app."""

from __future__ import annotations

from django.urls import URLPattern

routes: list[URLPattern] = []
