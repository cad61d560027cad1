"""Secrets that were found in public: whoever presents one ends it (APIKEY-14)."""

import logging
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from shared import logs
from shared.errors import Corrupt
from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, Credential
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller
from shared.model.identities import sessions
from shared.model.identities.sessions import SessionCredential, SessionRecord
from shared.model.items import Address, Item, Value
from shared.model.tenants import TenantSettings, settings_address
from shared.operations.access import api_key_end
from shared.operations.base import audit
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.store import Delete, Expect

URL_MAX: Final = 2048

_log = logging.getLogger(__name__)


class LeakReport(NamedTuple):
    """A secret that was found, and the address of the place if it is known."""

    secret: str
    url: str | None


class LeakFinder(NamedTuple):
    """The source address and the request of a report."""

    source_ip: str
    request_id: str


def end(ports: Ports, finder: LeakFinder, report: LeakReport) -> None:
    """End the API key or session with this secret, also the last admin key.

    An unknown secret costs as many reads, and changes nothing. Raises `Corrupt`, `Unavailable`.
    """
    settle(partial(_end, ports, finder, report))


def _end(ports: Ports, finder: LeakFinder, report: LeakReport) -> None:
    if report.secret.startswith(sessions.PREFIX):
        place = sessions.credential_address(report.secret)
    else:
        place = model.credential_address(sessions.digest(report.secret))
    item = ports.store.get(place)
    record_at, settings_at = _find_places(place, item)
    found = ports.store.get_many([record_at, settings_at])
    if item is None:
        return
    if not {record_at, settings_at} <= found.keys():
        raise Corrupt("a credential has no record")
    settings = TenantSettings.from_item(found[settings_at])
    inside = Caller.inside(settings.tenant_id, name="leaks", handle=settings.handle)
    caller = replace(inside, source_ip=finder.source_ip, request_id=finder.request_id)
    url = report.url and report.url[:URL_MAX]
    if "session_id" in item:
        session = SessionRecord.from_item(found[record_at])
        ports.store.write(
            Delete(session.address, Expect.PRESENT),
            Delete(session.owner_address, Expect.ANYTHING),
            Delete(place, Expect.PRESENT),
            audit.entry(
                ports,
                caller,
                Action.SESSION_DELETE,
                session.id,
                settings=settings,
                identity=session.identity,
                leaked=True,
                url=url,
            ),
        )
    else:
        key = ApiKey.from_item(found[record_at])
        details: dict[str, Value] = {"name": key.name, "url": url}
        announce = partial(
            audit.entry, ports, caller, Action.API_KEY_LEAKED, key.id, settings=settings, **details
        )
        # The entry of the revocation comes first.
        api_key_end.revoke(
            ports, caller, key, lambda _: [announce()], is_last_kept=False, settings=settings
        )
    figures = logs.fields(tenant_id=settings.tenant_id, metrics={"KeysLeaked": 1})
    _log.error("a leaked secret was presented, and has ended", extra=figures)


def _find_places(place: Address, item: Item | None) -> tuple[Address, Address]:
    """Return the addresses of record and settings; of missing items for an unknown secret."""
    if item is None:
        return place._replace(sk="none"), place._replace(sk="unknown")
    if "session_id" in item:
        session = SessionCredential.from_item(item)
        record = sessions.sessions(session.tenant_id).address(session.session_id)
        return record, settings_address(session.tenant_id)
    credential = Credential.from_item(item)
    record = model.records(credential.tenant_id).address(credential.key_id)
    return record, settings_address(credential.tenant_id)
