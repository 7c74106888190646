from django.apps import AppConfig


class ObservabilityConfig(AppConfig):
    name = "observability"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from observability.recorder import record
        from workspace.events import emitted

        emitted.connect(record, dispatch_uid="observability.recorder")
