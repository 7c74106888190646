from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents import checks  # noqa: F401 - registers them
        from agents.audited import TITLES
        from workspace.audit import name_actions

        name_actions(TITLES)
