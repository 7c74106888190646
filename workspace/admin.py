"""What an operator sees of people, workspaces and transcripts. Nothing is erased here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from workspace.models import (
    Blob,
    Conversation,
    Entry,
    Invitation,
    Membership,
    Turn,
    User,
    Workspace,
)

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    MembershipInline = admin.TabularInline[Membership, Workspace]
else:
    ModelAdmin = admin.ModelAdmin
    MembershipInline = admin.TabularInline

# One way in: with its rate limits and second factor.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]


class Kept(ModelAdmin):
    """Rows that others refer to for ever."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnly(Kept):
    """Rows that only actions write."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    list_display = ("username", "display_name", "email", "is_staff", "is_active")
    search_fields = ("username", "display_name", "email")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("display_name", "email", "language", "theme")}),
        (
            _("Rights on this server"),
            {
                "fields": (
                    "is_active",
                    "is_staff",
                    "is_superuser",
                    "groups",
                    "user_permissions",
                )
            },
        ),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Transcripts name their authors: switch an account off instead."""
        return False


class Members(MembershipInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Workspace)
class WorkspaceAdmin(Kept):
    list_display = ("name", "slug", "time_zone", "network", "created_at", "deleted_at")
    list_filter = ("network",)
    search_fields = ("name", "slug")
    inlines = (Members,)


@admin.register(Invitation)
class InvitationAdmin(ReadOnly):
    list_display = (
        "workspace",
        "role",
        "email",
        "created_by",
        "expires_at",
        "accepted_by",
        "revoked_at",
    )
    list_filter = ("role",)
    list_select_related = ("workspace", "created_by", "accepted_by")
    exclude = ("token_digest",)


@admin.register(Conversation)
class ConversationAdmin(ReadOnly):
    list_display = ("__str__", "workspace", "created_by", "head_seq", "updated_at")
    list_select_related = ("workspace", "created_by")
    search_fields = ("title",)


@admin.register(Turn)
class TurnAdmin(ReadOnly):
    list_display = ("id", "conversation", "author", "state", "created_at", "ended_at")
    list_filter = ("state",)
    list_select_related = ("conversation", "author")


@admin.register(Entry)
class EntryAdmin(ReadOnly):
    list_display = ("seq", "conversation", "kind", "author", "digest", "created_at")
    list_filter = ("kind",)
    list_select_related = ("conversation", "author")


@admin.register(Blob)
class BlobAdmin(ReadOnly):
    list_display = ("sha256", "workspace", "size", "mime", "created_at", "shredded_at")
    list_select_related = ("workspace",)
