"""Which model answers, and how its service is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from agents.errors import ProviderAuthFailed, ProviderRejected
from agents.models import Agent, Endpoint, LanguageModel
from agents.providers.addresses import AddressPolicy
from agents.providers.base import Provider
from agents.providers.http import Timeouts
from agents.providers.registry import EndpointConfig, make_provider
from agents.secrets import SecretUnreadable, decrypt
from workspace.models import Conversation, Workspace
from workspace.prepared import Given, Select, given


@dataclass(frozen=True)
class Choice:
    """Who answers. Good for a whole run; its repr shows no key."""

    provider: Provider = field(repr=False)
    endpoint: Endpoint
    language_model: LanguageModel


def choose(conversation: Conversation, agent: Agent) -> Choice:
    """The model for the conversation's next call. One query.

    The first that exists: the conversation's, the agent's, the workspace's default, the
    server's default, the simulator. Raises `ProviderRejected` when nothing can answer or
    when the model that the conversation names is gone, `ProviderAuthFailed` when the
    stored key cannot be read.
    """
    model = _pick(conversation, agent)
    return Choice(provider_for(model.endpoint), model.endpoint, model)


def offered_models(workspace: Workspace) -> QuerySet[LanguageModel]:
    """What conversations of the workspace may use: its own and the server's models."""
    models = _offered(workspace)
    if not settings.SIMULATOR:
        models = models.exclude(endpoint__kind=Endpoint.Kind.SIMULATOR)
    return models


def _offered(workspace: Workspace | Given) -> QuerySet[LanguageModel]:
    models = LanguageModel.objects.filter(
        Q(endpoint__workspace=workspace) | Q(endpoint__workspace__isnull=True),
        endpoint__deleted_at__isnull=True,
    )
    return models.select_related("endpoint").order_by(
        "endpoint__created_at", "endpoint_id", "name"
    )


def provider_for(endpoint: Endpoint) -> Provider:
    """The adapter that reaches the endpoint. Raises `ProviderAuthFailed`."""
    return make_provider(config_of(endpoint))


def config_of(endpoint: Endpoint) -> EndpointConfig:
    """What an adapter must know of the endpoint, its key in the clear."""
    try:
        key = decrypt(endpoint.secret)
    except SecretUnreadable as error:
        raise ProviderAuthFailed(f"{endpoint.name}: {error.message}") from None
    return EndpointConfig(
        name=endpoint.name,
        kind=endpoint.kind,
        base_url=base_url_of(endpoint),
        api_key=key,
        timeouts=Timeouts(
            connect=settings.PROVIDER_CONNECT_SECONDS,
            first_byte=settings.PROVIDER_FIRST_BYTE_SECONDS,
            idle=settings.PROVIDER_IDLE_SECONDS,
        ),
        policy=policy_of(endpoint),
        caches_prompts=endpoint.caches_prompts,
    )


def base_url_of(endpoint: Endpoint) -> str:
    """Where its service is; the simulator's is this server's own."""
    if endpoint.kind == Endpoint.Kind.SIMULATOR:
        return f"{settings.SIMULATOR_URL.rstrip('/').removesuffix('/v1')}/v1"
    return endpoint.base_url


def policy_of(endpoint: Endpoint) -> AddressPolicy:
    """Which addresses it may lead to: public ones, unless server staff vouched."""
    return AddressPolicy(
        allow_hosts=frozenset(settings.ALLOWED_PRIVATE_HOSTS),
        allow_private=(
            endpoint.allow_private or endpoint.kind == Endpoint.Kind.SIMULATOR
        ),
    )


def _candidates() -> QuerySet[LanguageModel]:
    offered = _offered(given("workspace", Endpoint, "workspace"))
    return offered.filter(
        Q(name=given("name", LanguageModel, "name"))
        | Q(pk=given("pk", LanguageModel, "id"))
        | Q(is_default=True)
        | Q(endpoint__kind=Endpoint.Kind.SIMULATOR)
    )


_CANDIDATES = Select[LanguageModel](_candidates)


def _pick(conversation: Conversation, agent: Agent) -> LanguageModel:
    candidates = _CANDIDATES.all(
        workspace=conversation.workspace_id,
        name=conversation.model_name,
        pk=agent.language_model_id,
    )
    if not settings.SIMULATOR:
        candidates = [model for model in candidates if not _is_simulated(model)]
    if conversation.model_name:
        return _named(conversation.model_name, candidates)
    for is_meant in _preferences(agent):
        if model := _first(candidates, is_meant):
            return model
    raise ProviderRejected(
        _(
            "No language model is set up for this workspace. An admin can add one under "
            "Settings → Endpoints."
        )
    )


def _named(name: str, candidates: Iterable[LanguageModel]) -> LanguageModel:
    """The model of that name; the workspace's own goes before the server's."""
    found = [model for model in candidates if model.name == name]
    if model := _first(found, is_own) or _first(found, lambda model: True):
        return model
    raise ProviderRejected(
        _(
            "The model %(name)s, which this conversation is set to, is no longer "
            "offered. Choose another one in the conversation's header."
        )
        % {"name": repr(name)}
    )


def _preferences(agent: Agent) -> list[Callable[[LanguageModel], bool]]:
    return [
        lambda model: model.pk == agent.language_model_id,
        lambda model: model.is_default and is_own(model),
        lambda model: model.is_default and not _is_simulated(model),
        _is_simulated,
    ]


def _first(
    models: Iterable[LanguageModel], is_meant: Callable[[LanguageModel], bool]
) -> LanguageModel | None:
    return next((model for model in models if is_meant(model)), None)


def is_own(model: LanguageModel) -> bool:
    """Whether a workspace set it up for itself; else it is the server's."""
    return model.endpoint.workspace_id is not None


def _is_simulated(model: LanguageModel) -> bool:
    return model.endpoint.kind == Endpoint.Kind.SIMULATOR
