"""Records in the admin: to look at, not to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from observability.models import Record

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Record]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Record)
class RecordAdmin(ModelAdmin):
    list_display = ("run_id", "seq", "kind", "failed", "at")
    list_filter = ("failed", "kind")
    search_fields = ("=run__id",)
    show_full_result_count = False
    ordering = ("-pk",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
