"""Changes of settings move to the audit log, where all the others are."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def move(apps: Any, schema_editor: Any) -> None:
    old = apps.get_model("agents", "SettingChange")
    new = apps.get_model("workspace", "Change")
    rows = old.objects.select_related("agent", "conversation").order_by("pk")
    for row in rows.iterator(chunk_size=500):
        of = row.agent or row.conversation
        new._base_manager.create(
            workspace_id=row.workspace_id or (of and of.workspace_id),
            conversation_id=row.conversation_id,
            action="setting.changed",
            subject=f"{row.key} · {row.agent.name}" if row.agent else row.key,
            old=row.old,
            new=row.new,
            by_id=row.by_id,
            at=row.at,
        )


class Migration(migrations.Migration):
    dependencies = [("agents", "0003_settings"), ("workspace", "0002_audit_log")]

    operations = [
        migrations.RunPython(move, migrations.RunPython.noop),
        migrations.DeleteModel(name="SettingChange"),
    ]
