from django.apps import AppConfig


class ObservabilityConfig(AppConfig):
    name = "observability"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from observability.recorder import blank, record
        from workspace.events import emitted
        from workspace.shredding import shredded

        emitted.connect(record, dispatch_uid="observability.recorder")
        shredded.connect(blank, dispatch_uid="observability.recorder")
