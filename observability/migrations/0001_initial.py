import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import observability.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("agents", "0001_initial"),
        ("workspace", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Record",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("seq", models.PositiveBigIntegerField()),
                (
                    "round",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="The round it belongs to; 0 before the first.",
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                (
                    "failed",
                    models.BooleanField(
                        default=False, help_text="Tells of something wrong."
                    ),
                ),
                (
                    "text",
                    models.TextField(help_text="The line that the log viewer shows."),
                ),
                (
                    "data",
                    models.JSONField(
                        default=dict, encoder=observability.models.PlainJSONEncoder
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "conversation",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="workspace.conversation",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="records",
                        to="agents.run",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["run", "kind"], name="record_by_run_and_kind"),
                    models.Index(
                        condition=models.Q(("failed", True)),
                        fields=["run", "seq"],
                        name="failed_record_by_run",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "seq"), name="one_record_per_seq"
                    )
                ],
            },
        ),
    ]
