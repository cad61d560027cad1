"""Forwards the reports of authorizers behind a relay to the service in batches (FLEET-25)."""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from ..answers import NoResponse, Response, unexpected_status_error
from ..formats.members import parse_json
from ..reports import REGISTER, ReportInterval
from .upstream import UpstreamConnection

_log: Final = logging.getLogger("rescind_authorizer.relay")

_REPORTS: Final = "/v1/authorizers/reports"
_ID: Final = re.compile(r"svc_azr_[0-7][0-9a-hjkmnp-tv-z]{25}", re.ASCII)

# The maximum number of reports in one request, and of authorizers with pending reports.
BATCH_MAX: Final = 100
AUTHORIZERS_MAX: Final = 20_000

# Seconds between two batches, and the maximum after failures.
_PAUSE: Final = 1.0
_BACKOFF_MAX: Final = 60.0

_ANSWER_MAX: Final = 256 * 1024
_OK: Final = 200
# The service rejects the content of a report. Other reports of the batch may be valid.
_BAD: Final = frozenset({400, 413, 422})

# An authorizer, and the caller that reports for it.
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """The last response to an authorizer's report, and the requested report interval."""

    status: str
    terms: ReportInterval


class ReportForwarder:
    """Registers authorizers, and collects their reports. It belongs to one event loop.

    `name` is the name of the relay. Reports of callers with different tokens are kept separate,
    because only the service can verify which authorizer signed a report.
    """

    def __init__(
        self, registering: UpstreamConnection, reporting: UpstreamConnection, name: str
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._registering = registering
        self._reporting = reporting
        self._name = name
        self._terms = ReportInterval()
        self._pending: dict[_Key, dict[str, Any]] = {}
        self._sending: set[_Key] = set()
        self._outcomes: dict[_Key, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._failures = 0

    @property
    def pending(self) -> int:
        """The number of authorizers with reports that the service does not have yet."""
        return len(self._sending.union(self._pending))

    def start(self) -> None:
        """Begin to forward reports."""
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Forward all reports, and stop. A request in progress is completed."""
        self._stopped.set()
        if self._task:
            await self._task
        if self._pending and not self._failures:
            await self._send_all()

    async def register(self, members: Mapping[str, Any], path: str = REGISTER) -> Response:
        """Return the response of the service to a registration with this body.

        The relay becomes the owner of the registration, which names the relay. Raises `NoResponse`.
        """
        body = json.dumps({**members, "relay": self._name}).encode()
        return await self._registering.run(
            lambda transport: transport.post(path, body, limit=_ANSWER_MAX)
        )

    async def passed_on(self, path: str, identifier: str, data: bytes) -> Response | None:
        """Return the response to events, or None for an invalid identifier. Raises `NoResponse`."""
        if not _ID.fullmatch(identifier):
            return None
        return await self._registering.run(
            lambda transport: transport.post(f"{path}/{identifier}/events", data, limit=_ANSWER_MAX)
        )

    def take(
        self, identifier: str, members: Mapping[str, Any], caller: str = ""
    ) -> ReportOutcome | None:
        """Queue a report of this caller, and return the result of the previous one.

        Returns None if too many authorizers report.
        """
        key = identifier, caller
        if not _ID.fullmatch(identifier):
            return ReportOutcome("not_found", self._terms)
        # Only results other than "ok" are kept. Each is returned once.
        status = self._outcomes.pop(key, "ok")
        if status == "not_found":
            return ReportOutcome(status, self._terms)
        pending_keys = self._sending.union(self._pending)
        if key not in pending_keys and len(pending_keys) >= AUTHORIZERS_MAX:
            return None
        seen_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._pending[key] = {**members, "id": identifier, "seen_at": seen_at}
        return ReportOutcome(status, self._terms)

    async def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                pause = await self._send_all() if self._pending else 0.0
            # Any error: if this task ended, the service would lose track of all authorizers here.
            except Exception:  # noqa: BLE001
                _log.exception("cannot forward reports")
                pause = _BACKOFF_MAX
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), max(pause, _PAUSE))

    async def _send_all(self) -> float:
        """Forward all reports. Return the seconds to pause."""
        while self._pending:
            # The oldest reports, with each authorizer once.
            keys: dict[str, _Key] = {}
            for key in self._pending:
                keys.setdefault(key[0], key)
                if len(keys) == BATCH_MAX:
                    break
            batch = {key: self._pending.pop(key) for key in keys.values()}
            self._sending = set(batch)
            try:
                await self._send(batch)
            except NoResponse as error:
                self._pending = batch | self._pending
                pause = max(min(_PAUSE * 2.0**self._failures, _BACKOFF_MAX), error.retry_after)
                self._failures = min(self._failures + 1, 10)
                self.counts["failures"] += 1
                _log.warning("cannot forward reports: %s", error)
                return min(pause, _BACKOFF_MAX)
            finally:
                self._sending = set()
            self._failures = 0
        return 0.0

    async def _send(self, batch: dict[_Key, dict[str, Any]]) -> None:
        """Forward a batch of reports. Only rejected reports are dropped."""
        reports = list(batch.values())
        body = json.dumps({"relay": self._name, "reports": reports}).encode()
        response = await self._reporting.run(
            lambda transport: transport.post(_REPORTS, body, limit=_ANSWER_MAX)
        )
        if response.status == _OK:
            self._record_results(response, batch)
            self.counts["sent"] += len(batch)
        elif response.status not in _BAD:
            raise unexpected_status_error(response)
        elif len(batch) == 1:
            self.counts["dropped"] += 1
            _log.warning(
                "dropped the report of %s: %s",
                reports[0]["id"],
                unexpected_status_error(response),
            )
        else:
            pairs, half = list(batch.items()), len(batch) // 2
            await self._send(dict(pairs[:half]))
            await self._send(dict(pairs[half:]))

    def _record_results(self, response: Response, batch: Iterable[_Key]) -> None:
        try:
            members = parse_json(response.body)
            outcomes = {each["id"]: each["status"] for each in members["results"]}
            self._terms = ReportInterval.of(members)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NoResponse("the response to reports is malformed") from None
        failures = {key: outcomes[key[0]] for key in batch if outcomes.get(key[0], "ok") != "ok"}
        self._outcomes |= failures
        while len(self._outcomes) > AUTHORIZERS_MAX:
            del self._outcomes[next(iter(self._outcomes))]
