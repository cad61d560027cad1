"""Sends the reports of a client in a separate thread, which never delays a poll.

The identity key of an authorizer signs its registrations and its reports (TRUST-10).
"""

import json
import logging
import os
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from . import events, files, reports
from .answers import NoResponse, Response, unexpected_status_error
from .formats.members import to_base64
from .formats.proofs import SignedRegistration, SignedReport
from .policy import PollPolicy
from .reports import ReporterIdentity, ReportResponse, ReportSchedule, ReportStatus
from .transport import Transport
from .view import Snapshot

_log = logging.getLogger("rescind_authorizer")

_ANSWER_MAX: Final = 64 * 1024
_GOOD: Final = frozenset({200, 201})
_CONFLICT: Final = 409
_NAME_TAKEN: Final = (
    "cannot register this client: another key has registered its name. Use a separate name for "
    "each authorizer, or run `rescind authorizers remove` for the old one"
)

# A service may refuse a proof if the clocks differ by this much.
_CLOCK_DIFFERS: Final = timedelta(seconds=20)

# Seconds to pause after an unexpected error.
_PAUSE: Final = 60.0


class Reporter:
    """Registers a client, and reports the state that `view` returns.

    `counts` contains the rejected responses by reason since the client was created. `name` is by
    default the host name. Processes that share `folder` get separate names: the second name ends
    with ` #2`. The folder keeps the key that signs the reports. Without a folder, each start has
    another key, and needs another name. `emit` receives an event for each report. `trust_version`
    returns the version of the current trust document, or 0 without one.
    """

    def __init__(  # noqa: PLR0913
        self,
        transport: Transport,
        policy: PollPolicy,
        view: Callable[[], Snapshot],
        counts: Mapping[str, int],
        emit: Callable[[events.Event], None],
        *,
        tenant: str,
        trust_version: Callable[[], int],
        name: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self._tenant = tenant
        self._trust_version = trust_version
        self._transport = transport
        self._policy = policy
        self._view = view
        self._counts = counts
        self._reported_counts = Counter(counts)
        self._emit = emit
        self._name = name or socket.gethostname()
        self._folder = folder
        self._process_number = 1
        self._claim: int | None = None
        self._schedule = ReportSchedule()
        self._identity: IdentityKey | None = None
        self._last_number = 0
        # How far the clock of the service is ahead of this clock.
        self._clock_offset = timedelta()
        self._view_changed = threading.Event()
        self._reported_at: datetime | None = None

    @property
    def report_status(self) -> ReportStatus:
        """The reporting part of the client's status."""
        return ReportStatus(self._schedule.state, self._reported_at, self._schedule.id)

    def wake(self) -> None:
        """Check the view again, because it may have changed."""
        self._view_changed.set()

    def close(self) -> None:
        """Abort the current request, and send no further ones. Set the event of `run` first."""
        self._transport.interrupt()
        self.wake()

    def run(self, stop: threading.Event) -> None:
        """Report until `stop` is set and `close` was called."""
        while not stop.is_set():
            try:
                pause = self.step()
            # Any error: if this thread ended, the service would lose track of this client.
            except Exception as error:  # noqa: BLE001
                _log.exception("cannot send a report")
                self._emit(events.ReportFailed(type(error).__name__, _PAUSE))
                stop.wait(_PAUSE)
                continue
            self._view_changed.wait(pause)
            self._view_changed.clear()
        self._transport.close()
        descriptor, self._claim = self._claim, None
        if descriptor is not None:
            files.release_lock(descriptor)

    def abandon(self) -> None:
        """Leave the name to the parent process without releasing its lock."""
        descriptor, self._claim = self._claim, None
        if descriptor is not None:
            os.close(descriptor)

    def step(self) -> float | None:
        """Send a report if it is due. Return the seconds until the next one.

        Returns None to wait until the view changes.
        """
        view = self._view()
        if view.state is None:
            return None
        sequence = view.state.sequence
        seconds_left = self._schedule.due(sequence, time.monotonic()) - time.monotonic()
        if seconds_left > 0:
            return seconds_left
        try:
            self._register() if self._schedule.id is None else self._report(view, sequence)
        except (NoResponse, IdentityKeyCorrupt, OSError) as error:
            self._record_failure(str(error), None, 0.0)
        return 0.0

    def _register(self) -> None:
        # A read-only folder must not prevent reports.
        with suppress(OSError):
            if self._folder and self._claim is None:
                self._process_number, self._claim = files.claim(self._folder)
        # The name is unique among the processes that share the folder.
        name = f"{self._name} #{self._process_number}" if self._process_number > 1 else self._name
        proof = self._get_identity_key().proof(
            self._tenant, name, datetime.now(UTC) + self._clock_offset
        )
        try:
            version = metadata.version("rescind-authorizer")
        except metadata.PackageNotFoundError:
            version = "unknown"
        body = reports.registration(name, version, proof)
        answer = self._post(reports.REGISTER, body, has="id")
        if answer:
            self._last_number = max(self._last_number, answer.last_number)
            self._schedule.record_registration(answer, time.monotonic())

    def _report(self, view: Snapshot, sequence: int) -> None:
        counts = Counter(self._counts)
        unreported = counts - self._reported_counts
        refused = {reason: count for reason, count in unreported.items() if reason}
        identifier = self._schedule.id or ""
        # Milliseconds since 1970. The number rises even if the clock is set back.
        self._last_number = max(self._last_number + 1, time.time_ns() // 1_000_000)
        identity = ReporterIdentity(
            self._tenant, identifier, self._last_number, self._trust_version()
        )
        report = reports.statement(view, self._policy, refused, identity)
        body = json.dumps(self._get_identity_key().sign_report(report)).encode()
        answer = self._post(reports.report_path(identifier), body, has="status")
        if answer:
            self._reported_counts, self._reported_at = counts, datetime.now(UTC)
            self._schedule.record_success(answer, sequence, time.monotonic())
            self._emit(events.ReportAccepted(sequence, answer.status))

    def _post(self, path: str, body: bytes, *, has: str) -> ReportResponse | None:
        """Return the response, or None if it is not usable. Raises `NoResponse`."""
        response = self._transport.post(path, body, limit=_ANSWER_MAX)
        if response.status not in _GOOD:
            is_time_known = self._learn_time(response)
            failed_response = response if is_time_known else None
            error = unexpected_status_error(response)
            is_refused = has == "id" and response.status == _CONFLICT and is_time_known
            message = f"{_NAME_TAKEN} ({error})" if is_refused else str(error)
            self._record_failure(message, failed_response, error.retry_after, is_refused=is_refused)
            return None
        try:
            return ReportResponse.parse(response.body, has=has)
        except ValueError as error:
            raise NoResponse(str(error)) from None

    def _learn_time(self, response: Response) -> bool:
        """Read the time of the service from its response, and return whether it was known.

        A service refuses a proof if the local clock is wrong. This time has no other use.
        """
        try:
            service_time = parsedate_to_datetime(response.headers["date"])
            offset = service_time - datetime.now(UTC)
        except (KeyError, ValueError, TypeError, OverflowError):
            return True
        previous, self._clock_offset = self._clock_offset, offset
        return abs(offset - previous) < _CLOCK_DIFFERS

    def _record_failure(
        self, message: str, response: Response | None, seconds: float, *, is_refused: bool = False
    ) -> None:
        status = response.status if response else None
        pause = self._schedule.record_failure(status, seconds, time.monotonic())
        self._emit(events.ReportFailed(message, pause, is_refused=is_refused))

    def _get_identity_key(self) -> "IdentityKey":
        """Return the key, which is read or created once.

        Raises `IdentityKeyCorrupt`, or `OSError`.
        """
        if self._identity is None:
            self._identity = of_folder(self._folder) if self._folder else IdentityKey.new()
        return self._identity


_FILE: Final = "identity.key"
_OTHERS: Final = 0o077


class IdentityKeyCorrupt(Exception):
    """The key file cannot be used. The message states the reason and the remedy."""


class IdentityKey:
    """Signs with one key. `public_key` is its raw public key (32 bytes)."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Self:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    def proof(self, tenant: str, name: str, now: datetime) -> dict[str, str]:
        """Return the proof for a registration under `name`, in its wire form."""
        payload = SignedRegistration(tenant, name, self.public_key, now).encode()
        signature = self._key.sign(SignedRegistration.signed_part(payload))
        return {"payload": to_base64(payload), "signature": to_base64(signature)}

    def sign_report(self, report: SignedReport) -> dict[str, str]:
        """Return the members of a heartbeat that contain the signed report."""
        payload = report.encode()
        signature = self._key.sign(SignedReport.signed_part(payload))
        return {"report": to_base64(payload), "signature": to_base64(signature)}


def of_folder(folder: Path) -> IdentityKey:
    """Return the identity key of a folder. Create it if it is missing.

    Processes that share the folder use the same key. Raises `IdentityKeyCorrupt`, or `OSError` if
    the file cannot be read or created.
    """
    path = folder / _FILE
    with suppress(FileNotFoundError):
        return _read(path)
    with files.lock_folder(folder):
        # Another process may have created it before this one acquired the lock.
        with suppress(FileNotFoundError):
            return _read(path)
        key = Ed25519PrivateKey.generate()
        files.replace(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return IdentityKey(key)


def _read(path: Path) -> IdentityKey:
    with path.open("rb") as file:
        mode, data = os.fstat(file.fileno()).st_mode, file.read()
    if stat.S_IMODE(mode) & _OTHERS:
        raise IdentityKeyCorrupt(f"others can read {path}: run chmod 600 {path}")
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityKeyCorrupt(
            f"{path} is not an Ed25519 key in PEM. Delete the file, and ask the operator of the "
            "service to remove the registration of this authorizer"
        )
    return IdentityKey(key)
