"""HTTP and socket routes.

`/simulator` is served by its own ASGI application: a model API streams for minutes
and needs no session, no middleware and no database thread. Sockets find out
themselves who is signed in (workspace.sockets), on their own database threads.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspace.settings")

import django

django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings

from observability import consumers as observability_consumers
from workspace import consumers as workspace_consumers
from workspace.web import Application, PooledApplication, mounted

pages = PooledApplication()
http: Application = pages
if settings.SIMULATOR:
    from agents.simulator.app import SIMULATOR, make_application

    simulator = make_application(SIMULATOR, pages=pages)
    http = mounted({"/simulator": simulator}, otherwise=pages)

application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": AllowedHostsOriginValidator(
            # Sockets sign people in themselves: see workspace.sockets.Socket.
            URLRouter([*workspace_consumers.routes, *observability_consumers.routes])
        ),
    }
)
