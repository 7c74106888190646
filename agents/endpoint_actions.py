"""Every write to endpoints and their models.

A workspace's own are managed by its admins; those without a workspace serve the whole
server and are managed by server staff.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.endpoints import config_of, policy_of
from agents.errors import ProviderError
from agents.models import Agent, Endpoint, LanguageModel
from agents.providers.addresses import AddressRefused, parse_target, resolve
from agents.providers.registry import EndpointCheck, EndpointConfig, check_endpoint
from agents.secrets import encrypt
from workspace import audit
from workspace.access import require
from workspace.errors import BadInput, Conflict, NotAllowed, NotVisible
from workspace.models import User, Workspace

logger = logging.getLogger(__name__)

MOST_MODELS = 200  # of one endpoint
KEY_STAYS = gettext_lazy(
    "The address is another server's now. Enter the key again, or tick “Forget the "
    "key”: the saved one is only sent where it was meant for."
)
_KEY = re.compile(r"[!-~]{1,4000}")
#: What people paste along with the base address.
_PASTED_PATH = re.compile(r"/(?:chat/completions|completions|messages|models)$")


@dataclass(frozen=True, kw_only=True)
class EndpointValues:
    """What a person enters. Without a key the stored one stays, unless `drop_key`."""

    name: str
    kind: str
    base_url: str
    key: str = field(default="", repr=False)
    drop_key: bool = False
    caches_prompts: bool = True
    allow_private: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelValues:
    """Limits are tokens, prices US dollars per million tokens; None is unknown."""

    name: str
    window: int = 128_000
    max_output: int = 16_000
    vision: str = LanguageModel.Vision.UNKNOWN
    price_input: Decimal | None = None
    price_cache_read: Decimal | None = None
    price_cache_write: Decimal | None = None
    price_output: Decimal | None = None


def save_endpoint(
    *,
    by: User,
    workspace: Workspace | None,
    values: EndpointValues,
    endpoint: Endpoint | None = None,
) -> Endpoint:
    """Store a new endpoint, or change one. Its key is encrypted and never read back.

    A stored key stays with the service it was entered for: a new address needs the key
    again, so that nobody can have it sent to a server of their own. The same goes for
    staff's word that the address may be private.
    """
    _require_manager(by, workspace)
    values = _checked_endpoint(values)
    saved = endpoint or Endpoint(workspace=workspace, created_by=by)
    if saved.workspace != workspace or saved.kind == Endpoint.Kind.SIMULATOR:
        raise NotVisible
    old = _told(saved) if endpoint else None
    moved = endpoint is not None and is_elsewhere(saved.base_url, values.base_url)
    if moved and saved.secret and not (values.key or values.drop_key):
        raise BadInput(str(KEY_STAYS))
    _apply(values, saved, vouched=_vouched(by, values, saved, moved=moved))
    _refuse_private(saved)
    with transaction.atomic():
        _refuse_same_name(saved)
        saved.save()
        new = _told(saved) | ({"key": "replaced"} if values.key else {})
        _note("endpoint", by, saved, saved.name, old, new)
    logger.info("Endpoint %s saved by user %s", saved.pk, by.pk)
    return saved


def _told(row: Endpoint | LanguageModel) -> dict[str, Any]:
    """What the audit log has of it: all that people enter, but no key."""
    kind = EndpointValues if isinstance(row, Endpoint) else ModelValues
    values = {
        name: getattr(row, name)
        for name in kind.__dataclass_fields__
        if name not in ("key", "drop_key")
    }
    told = {
        name: str(value) if isinstance(value, Decimal) else value
        for name, value in values.items()
    }
    return told | ({"key": bool(row.secret)} if isinstance(row, Endpoint) else {})


def _note(
    noun: str, by: User, endpoint: Endpoint, subject: str, old: Any, new: Any
) -> None:
    """The change of an endpoint or a model in the audit log, if there is one."""
    verb = "made" if old is None else "deleted" if new is None else "changed"
    if old != new:
        audit.record(
            f"{noun}.{verb}",
            by=by,
            workspace=endpoint.workspace,
            subject=subject,
            old=old,
            new=new,
        )


def _checked_endpoint(values: EndpointValues) -> EndpointValues:
    if values.kind not in (Endpoint.Kind.CHAT_COMPLETIONS, Endpoint.Kind.ANTHROPIC):
        raise BadInput(_("Choose which API the service speaks."))
    name, key = one_line(values.name, _("name"), 80), values.key.strip()
    if key and not _KEY.fullmatch(key):
        raise BadInput(
            _(
                "The key has characters that keys never have, such as spaces. Copy it "
                "again, in one piece."
            )
        )
    return EndpointValues(
        **asdict(values) | {"name": name, "key": key, "base_url": _base_url(values)}
    )


def _base_url(values: EndpointValues) -> str:
    url = values.base_url.strip().rstrip("/")
    url = _PASTED_PATH.sub("", url)
    try:
        parse_target(url)
    except AddressRefused as refusal:
        raise BadInput(
            _("The address cannot be used: %(why)s") % {"why": refusal}
        ) from None
    if "?" in url or "#" in url or len(url) > 300:
        raise BadInput(
            _(
                "Enter the base address alone, such as https://api.openai.com/v1, "
                "without a question mark or hash."
            )
        )
    return url


def is_elsewhere(old: str, new: str) -> bool:
    """Whether two addresses differ in scheme, host or port."""
    try:
        return parse_target(old) != parse_target(new)
    except AddressRefused:
        return True


def _vouched(by: User, values: EndpointValues, saved: Endpoint, *, moved: bool) -> bool:
    if by.is_staff:
        return values.allow_private
    return saved.allow_private and not moved


def _apply(values: EndpointValues, saved: Endpoint, *, vouched: bool) -> None:
    saved.name = values.name
    saved.kind = values.kind
    saved.base_url = values.base_url
    saved.caches_prompts = values.caches_prompts
    saved.allow_private = vouched
    if values.key:
        saved.secret = encrypt(values.key)
    elif values.drop_key:
        saved.secret = ""


def _refuse_private(endpoint: Endpoint) -> None:
    """Say at once what connecting would refuse, as far as no name server is asked."""
    target = parse_target(endpoint.base_url)
    host = target.host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host != "localhost" and not host.endswith(".localhost"):
            return
        host = "127.0.0.1"
        if policy_of(endpoint).lists(target.host, target.port):
            return
    try:
        resolve(host, target.port, policy_of(endpoint))
    except AddressRefused as refusal:
        raise BadInput(
            _(
                "%(why)s Server staff can also save this endpoint with “Private "
                "address” ticked."
            )
            % {"why": refusal}
        ) from None


def _refuse_same_name(saved: Endpoint) -> None:
    same = Endpoint.objects.filter(
        workspace=saved.workspace, name=saved.name, deleted_at=None
    ).exclude(pk=saved.pk)
    if same.exists():
        raise Conflict(
            _("There is an endpoint named %(name)s already. Choose another name.")
            % {"name": saved.name}
        )


@transaction.atomic
def delete_endpoint(*, by: User, endpoint: Endpoint) -> int:
    """Hide the endpoint and erase its key. Returns how many agents lose their model."""
    _require_manager(by, endpoint.workspace)
    if endpoint.kind == Endpoint.Kind.SIMULATOR:
        raise BadInput(
            _("The simulator belongs to the server; SIMULATOR=off turns it off.")
        )
    _note("endpoint", by, endpoint, endpoint.name, _told(endpoint), None)
    agents = Agent.objects.filter(language_model__endpoint=endpoint)
    bereft = agents.update(language_model=None)
    endpoint.language_models.update(is_default=False)
    endpoint.secret = ""
    endpoint.deleted_at = timezone.now()
    endpoint.save(update_fields=["secret", "deleted_at"])
    logger.info("Endpoint %s deleted by user %s", endpoint.pk, by.pk)
    return bereft


def try_endpoint(
    *,
    by: User,
    endpoint: Endpoint,
    model_name: str = "",
    check: Callable[[EndpointConfig, str], EndpointCheck] = check_endpoint,
) -> EndpointCheck:
    """Ask the service for its models and for one word. Waits for the network."""
    _require_manager(by, endpoint.workspace)
    try:
        config = config_of(endpoint)
    except ProviderError as error:
        return EndpointCheck(False, (), (error.message,))
    if not model_name:
        chosen = endpoint.language_models.order_by("-is_default", "name").first()
        model_name = chosen.name if chosen else ""
    return check(config, model_name)


def save_model(
    *,
    by: User,
    endpoint: Endpoint,
    values: ModelValues,
    model: LanguageModel | None = None,
) -> LanguageModel:
    """Store a model. The first one of a workspace becomes its default."""
    _require_manager(by, endpoint.workspace)
    values = _checked_model(values)
    saved = model or LanguageModel(endpoint=endpoint)
    if saved.endpoint_id != endpoint.pk or endpoint.deleted_at:
        raise NotVisible
    old = _told(saved) if model else None
    for name, value in asdict(values).items():
        setattr(saved, name, value)
    with transaction.atomic():
        models = endpoint.language_models.exclude(pk=saved.pk)
        if models.filter(name=saved.name).exists():
            raise Conflict(
                _("%(endpoint)s has a model named %(name)s already.")
                % {"endpoint": endpoint.name, "name": saved.name}
            )
        if model is None and models.count() >= MOST_MODELS:
            raise BadInput(_("That is too many models for one endpoint: remove some."))
        if not _defaults(endpoint.workspace).exists():
            saved.is_default = endpoint.kind != Endpoint.Kind.SIMULATOR
        saved.save()
        _note("model", by, endpoint, saved.name, old, _told(saved))
    return saved


def _checked_model(values: ModelValues) -> ModelValues:
    if not 1_000 <= values.window <= 100_000_000:
        raise BadInput(_("The window must be at least 1,000 tokens."))
    if not 1 <= values.max_output < values.window:
        raise BadInput(
            _("The longest answer must be at least 1 token and less than the window.")
        )
    if values.vision not in LanguageModel.Vision.values:
        raise BadInput(_("Say whether the model sees images: yes, no or unknown."))
    prices = (
        values.price_input,
        values.price_cache_read,
        values.price_cache_write,
        values.price_output,
    )
    if not all(price is None or _is_price(price) for price in prices):
        raise BadInput(_("A price is at least 0 US dollars per million tokens."))
    name = one_line(values.name, _("name"), 160)
    return ModelValues(**asdict(values) | {"name": name})


def _is_price(price: Decimal) -> bool:
    return price.is_finite() and 0 <= price < 1_000_000


@transaction.atomic
def delete_model(*, by: User, model: LanguageModel) -> None:
    """Stop offering a model. Agents that used it fall back to the default."""
    _require_manager(by, model.endpoint.workspace)
    if model.endpoint.kind == Endpoint.Kind.SIMULATOR:
        raise BadInput(_("The simulator's model stays; SIMULATOR=off turns it off."))
    _note("model", by, model.endpoint, model.name, _told(model), None)
    model.delete()


@transaction.atomic
def set_default_model(
    *, by: User, workspace: Workspace | None, model: LanguageModel | None
) -> None:
    """Who answers where an agent names no model; None leaves it to the server."""
    _require_manager(by, workspace)
    if model and (model.endpoint.workspace != workspace or model.endpoint.deleted_at):
        raise NotVisible
    before = _defaults(workspace).first()
    _defaults(workspace).update(is_default=False)
    if model:
        model.is_default = True
        model.save(update_fields=["is_default"])
    if before != model:
        names = [str(one) if one else None for one in (before, model)]
        audit.record(
            "model.default", by=by, workspace=workspace, old=names[0], new=names[1]
        )


def _defaults(workspace: Workspace | None) -> QuerySet[LanguageModel]:
    return LanguageModel.objects.filter(endpoint__workspace=workspace, is_default=True)


def _require_manager(by: User, workspace: Workspace | None) -> None:
    """Admins manage their workspace's endpoints, server staff the server's."""
    if workspace is not None:
        require(by, workspace, "manage_endpoints")
    elif not by.is_staff:
        raise NotAllowed(
            _("This belongs to the whole server. Server staff can change it.")
        )


def one_line(value: str, what: str, longest: int) -> str:
    text = value.strip()
    if not text or len(text) > longest or not text.isprintable():
        raise BadInput(
            _("Enter a %(what)s of 1 to %(longest)d characters.")
            % {"what": what, "longest": longest}
        )
    return text
