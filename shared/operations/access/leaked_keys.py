"""Revoke API keys that were found in public, for any client that presents one (APIKEY-14)."""

import logging
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from shared import logs
from shared.errors import DataCorrupt
from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, Credential
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.items import Value
from shared.model.tenants import TenantSettings, settings_address
from shared.operations.access import api_key_end
from shared.operations.base import audit
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import Change

URL_MAX: Final = 2048

_log = logging.getLogger(__name__)


class LeakReport(NamedTuple):
    """A secret that was found, the URL where it was found if known, and the request."""

    secret: str
    url: str | None
    source_ip: str
    request_id: str


def end(ports: Ports, report: LeakReport) -> None:
    """Revoke the API key with this secret, even the last admin key.

    An unknown secret costs the same number of reads, without a change. Raises `DataCorrupt`,
    `Unavailable`.
    """
    settle(partial(_end, ports, report))


def _end(ports: Ports, report: LeakReport) -> None:
    place = model.credential_address(model.digest(report.secret))
    credential = Credential.from_optional(ports.store.get(place))
    # No tenant has this identifier, so an unknown secret reads two missing items.
    tenant_id, key_id = (credential.tenant_id, credential.key_id) if credential else ("no", "no")
    key_at, settings_at = model.records(tenant_id).address(key_id), settings_address(tenant_id)
    items = ports.store.get_many([key_at, settings_at])
    if credential is None:
        return
    if not {key_at, settings_at} <= items.keys():
        raise DataCorrupt("an API key has a credential but no record")
    key, settings = ApiKey.from_item(items[key_at]), TenantSettings.from_item(items[settings_at])
    inside = Caller.inside(tenant_id, name="leaks", handle=settings.handle)
    caller = replace(inside, source_ip=report.source_ip, request_id=report.request_id)

    def announce(_: ApiKey) -> list[Change]:
        # Written after the entry of the revocation, because identifiers are in order of time.
        details: dict[str, Value] = {"name": key.name, "url": report.url and report.url[:URL_MAX]}
        action = AuditAction.API_KEY_LEAKED
        return [audit.entry(ports, caller, action, key.id, settings=settings, **details)]

    api_key_end.revoke(ports, caller, key, announce, is_last_kept=False, settings=settings)
    figures = logs.fields(tenant_id=tenant_id, metrics={"KeysLeaked": 1})
    _log.error("a leaked API key was reported and is revoked", extra=figures)
