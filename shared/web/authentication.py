"""Authentication of callers by API key or session, and usage counts of API keys.

Uses are counted in memory and written at most once per second and key (APIKEY-8). An instance that
is killed loses its unwritten counts: at most one second for a key in use. An orderly stop writes
all of them. The count of a key that is no longer used is written during requests with other keys,
one per request.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from starlette.requests import Request

from shared.errors import Unavailable
from shared.model import times
from shared.model.callers import Caller
from shared.operations.access import api_keys
from shared.ports import Ports
from shared.ports.token_buckets import UsageDelta
from shared.web.errors import Unauthorized
from shared.web.work import IN_PLACE, Work, WorkKind

_log = logging.getLogger(__name__)

_PERIOD: Final = timedelta(seconds=1)
# Session secrets begin with this; API keys never do (shared/model/identities/sessions.py).
_SESSION: Final = "svc_session_"


def authenticate(
    ports: Ports,
    request: Request,
    *,
    source_ip: str,
    request_id: str,
    refusing: Callable[[], object] = lambda: None,
) -> Caller:
    """Return the caller of the request, identified by its API key or session.

    Raises `Unauthorized` without a Bearer header, `InvalidApiKey` if the credential is rejected,
    and `Unavailable` if the store fails. `refusing` is called before a rejection, and may raise
    instead (AUTH-9).
    """
    try:
        secret = _secret(request.headers.getlist("authorization"))
    except Unauthorized:
        refusing()
        raise
    if secret.startswith(_SESSION):
        # Imported here to keep the load time of requests with API keys low.
        from shared.operations.identities import authentication  # noqa: PLC0415

        return authentication.authenticate(
            ports, secret, source_ip=source_ip, request_id=request_id, refusing=refusing
        )
    credential = api_keys.authenticate(ports, secret, source_ip=source_ip, refusing=refusing)
    caller = Caller(
        tenant_id=credential.tenant_id,
        identity=credential.identity,
        scopes=credential.scopes,
        key_id=credential.key_id,
        source_ip=source_ip,
        request_id=request_id,
        key_expires_at=credential.expires_at,
        name=credential.name,
    )
    if credential.role is None:
        return caller
    from shared.operations.identities import authentication  # noqa: PLC0415

    return authentication.with_role(ports, caller, credential.role)


def _secret(values: list[str]) -> str:
    if not values:
        raise Unauthorized("Authorization: the header is required; send Bearer and an API key.")
    value = ", ".join(values)
    if "," in value:
        # Two headers, or a header that a gateway joined: the intended key is ambiguous.
        return value
    scheme, _, secret = value.partition(" ")
    # RFC 9110, 11.1: the scheme is case-insensitive, and one or more spaces follow it.
    if scheme.lower() != "bearer":
        raise Unauthorized("Authorization: the scheme must be Bearer, followed by an API key.")
    return secret.lstrip(" ")


@dataclass(slots=True)
class _Tally:
    tenant_id: str
    last_used_at: datetime
    requests: int = 0
    written_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        return self.written_at is None or not now - _PERIOD < self.written_at <= now


class UsageCounter:
    """The API key counts that this instance wrote within the last second or has yet to write.

    The keys are ordered by the time of their last write, oldest first. `work` writes the counts.
    All other code runs in one thread.
    """

    def __init__(self, work: Work = IN_PLACE) -> None:
        self._work = work
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()

    async def count(self, ports: Ports, caller: Caller) -> None:
        """Count a request with the caller's API key. Write failures are logged."""
        if caller.key_id is None:
            return
        now = ports.now()
        tally = self._tallies.setdefault(caller.key_id, _Tally(caller.tenant_id, now))
        tally.requests += 1
        tally.last_used_at = now
        if tally.is_due(now):
            await self._write(ports, caller.key_id, tally, now)
        # Also the count of another key, which may no longer be used.
        now = ports.now()
        while self._tallies:
            key_id, tally = next(iter(self._tallies.items()))
            if not tally.is_due(now):
                return
            if tally.requests:
                await self._write(ports, key_id, tally, now)
                return
            # A missing key is due as well, so this entry is not needed.
            del self._tallies[key_id]

    def flush(self, ports: Callable[[], Ports]) -> None:
        """Write all unwritten counts. `ports` is called only if there are any."""
        waiting = [(key_id, tally) for key_id, tally in self._tallies.items() if tally.requests]
        for key_id, tally in waiting:
            self._writer(ports(), key_id, tally, tally.last_used_at)()

    async def _write(self, ports: Ports, key_id: str, tally: _Tally, now: datetime) -> None:
        write = self._writer(ports, key_id, tally, now)
        await self._work(write, WorkKind.ADMISSION, tenant_id=tally.tenant_id)

    def _writer(
        self, ports: Ports, key_id: str, tally: _Tally, now: datetime
    ) -> Callable[[], None]:
        """Return a function that writes the count of a key, and reset the count."""
        requests, tally.requests, tally.written_at = tally.requests, 0, now
        self._tallies.move_to_end(key_id)
        used_at = tally.last_used_at

        def write() -> None:
            late = used_at < times.truncate_to_second(ports.now())
            try:
                ports.usage.add(UsageDelta(tally.tenant_id, key_id, requests, used_at, late=late))
            except Unavailable:
                # Not retried: a count that is too low is better than a count that is too high.
                _log.exception("cannot count %d requests of API key %s", requests, key_id)

        return write
