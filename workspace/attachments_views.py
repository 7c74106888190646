"""Attaching files to a message, and showing what a conversation holds."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from workspace import attachments, blobs, images
from workspace.access import conversation_for
from workspace.errors import BadInput, NotVisible
from workspace.middleware import wants_json
from workspace.models import Attachment, User

#: Seconds that a browser may show an image from its own cache.
CACHED = 3600


def described(row: Attachment) -> dict[str, Any]:
    """What the composer shows of an attachment."""
    return {
        "id": str(row.pk),
        "kind": row.kind,
        "name": row.name,
        "url": row.get_absolute_url(),
        "about": attachments.about(row),
    }


@login_required
@require_POST
def attach(request: HttpRequest, slug: str, conversation_id: UUID) -> HttpResponse:
    """Keep one file for the person's next message."""
    conversation = conversation_for(request.user, slug, conversation_id, "attach")
    file = request.FILES.get("file")
    if file is None:
        raise BadInput(_("Choose at least one file."))
    images.check_size(file.size or 0)
    row = attachments.attach(
        conversation=conversation,
        author=cast(User, request.user),
        name=file.name or "",
        data=file.read(),
    )
    if wants_json(request):
        return JsonResponse(described(row))
    return redirect(conversation)


@login_required
@require_POST
def remove(
    request: HttpRequest, slug: str, conversation_id: UUID, attachment_id: UUID
) -> HttpResponse:
    """Take back one's own file before it is sent."""
    conversation = conversation_for(request.user, slug, conversation_id, "attach")
    attachments.remove(
        conversation=conversation,
        user=cast(User, request.user),
        attachment_id=attachment_id,
    )
    if wants_json(request):
        return JsonResponse({"ok": True})
    return redirect(conversation)


@login_required
@require_GET
def show(
    request: HttpRequest, slug: str, conversation_id: UUID, sha256: str
) -> HttpResponse:
    """The file itself, for whoever may see the conversation; it can do nothing."""
    conversation = conversation_for(request.user, slug, conversation_id)
    row = attachments.visible(conversation, cast(User, request.user), sha256)
    try:
        data = blobs.get(conversation.workspace_id, row.sha256)
    except blobs.DamagedBlob:
        raise NotVisible from None
    is_image = row.kind == Attachment.Kind.IMAGE
    kind = row.mime if is_image else "text/plain; charset=utf-8"
    response = HttpResponse(data, content_type=kind)
    disposition = content_disposition_header("download" in request.GET, row.name)
    response["Content-Disposition"] = disposition or "inline"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"] = f"private, max-age={CACHED if is_image else 0}"
    return response
