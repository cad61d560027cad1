"""Runs this client in the conformance suite. Requests and responses are lines of JSON.

docs/spec/feed.md describes the requests. `python -m rescind_authorizer conformance` starts it.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from . import events
from .answers import NoResponse, parse_answer, read_age
from .client import AuthorizerClient, NotReady
from .formats import documents
from .formats.documents import NotTrusted
from .formats.following import TrustState, follow
from .formats.ids import is_warrant_id
from .formats.signing_keys import PublishedKeys
from .formats.tokens import token_id
from .formats.trust import KeyUse
from .http1 import Response
from .policy import BaseRequired, PollPolicy, RejectionReason, ResponseRejectedError
from .saved_state import FileStateStore
from .state import FeedPosition, FeedState, advance


class ConformanceSession:
    """A client without a network: requests supply the time, the responses and the bases."""

    def __init__(self) -> None:
        self._state: FeedState | None = None
        self._trust: TrustState
        self._signed_by: bytes | None = None
        self._is_trusted = False
        self._saved_position: FeedPosition | None = None
        self._end: datetime | None = None  # end of freshness; None if no bound was given
        self._client: AuthorizerClient | None = None
        self._failures = 0

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request. Its only member is the name of the command."""
        ((name, arguments),) = request.items()
        return (
            _COMMANDS[name](self, **arguments)
            if isinstance(arguments, Mapping)
            else self.verdicts(arguments)
        )

    def init(self, tenant: str, trust_root: str, floor: Mapping[str, Any] | None) -> dict[str, Any]:
        """Start without a state. `floor` is the saved position, if any."""
        self._state = self._end = self._signed_by = None
        self._trust = TrustState(tenant, trust_root)
        self._saved_position = None
        if floor is not None:
            self._saved_position = FeedPosition(floor["sequence"], base64.b64decode(floor["chain"]))
            signer = floor.get("signer")
            self._signed_by = base64.b64decode(signer) if signer else None
        return {"ready": True}

    def trust(self, now: str, response: str) -> dict[str, Any]:
        """Apply a response of `GET /v1/trust`."""
        try:
            signed_documents = documents.documents(response.encode())
            self._trust = follow(self._trust, signed_documents, datetime.fromisoformat(now))
        except NotTrusted as refused:
            return {"refused": refused.reason.value}
        self._saved_position = self._trust.position(self._signed_by, self._saved_position)
        if self._signed_by not in self._trust.keys_for_use(KeyUse.LISTS):
            self._signed_by, self._is_trusted = None, False
        return {"version": self._trust.version}

    def signing_keys(self, blob: str) -> dict[str, Any]:
        """Check the blob of signing keys that the feed head names."""
        if self._state is None or self._state.head.keys is None:
            raise ValueError("no head names signing keys")
        reference, tenant = self._state.head.keys, self._state.head.tenant_id
        try:
            keys = PublishedKeys.from_blob(base64.b64decode(blob), reference, tenant_id=tenant)
            keys.check(self._trust.held.document.signing_keys if self._trust.held else None)
        except NotTrusted as refused:
            return {"refused": refused.reason.value}
        return {"keys": len(keys.keys)}

    def restart(self) -> dict[str, Any]:
        """Restart from the saved position."""
        if self._state and self._is_trusted:
            self._saved_position = self._state.position
        self._state = self._end = None
        return {"ready": True}

    def poll(self, now: str, answer: str, base: str | None) -> dict[str, Any]:
        """Apply a response, with the base that the feed head names if the case supplies it."""
        try:
            self._state = advance(
                self._state if self._is_trusted else None,
                parse_answer(answer.encode()),
                base=None if base is None else base64.b64decode(base),
                now=datetime.fromisoformat(now),
                verifier=self._trust,
                saved_position=self._saved_position,
            )
        except (ResponseRejectedError, NotTrusted) as refused:
            return {"refused": refused.reason.value}
        except BaseRequired as error:
            return {"needs_base": error.base.version}
        self._signed_by, self._is_trusted = self._state.signed_by, True
        return {"sequence": self._state.sequence}

    def confirm(self, now: str, age: str, max_staleness: int) -> dict[str, Any]:
        """Record that a response with this `Age`, requested at `now`, confirmed the feed head."""
        try:
            seconds = read_age(Response(200, {"age": age}))
        except NoResponse:
            return {"refused": RejectionReason.MALFORMED.value}
        end = datetime.fromisoformat(now) + timedelta(seconds=max_staleness - seconds)
        self._end = end if self._end is None else max(self._end, end)
        return {"ready": True}

    def check(self, now: str, ids: list[str]) -> dict[str, Any]:
        """Return the verdict on a chain of warrants at a given time."""
        if not ids or not all(map(is_warrant_id, ids)):
            return {"refused": RejectionReason.MALFORMED.value}
        state, moment = self._state, datetime.fromisoformat(now)
        if state and any(map(state.is_revoked, ids)):
            return {"verdict": "revoked"}
        if (
            state is None
            or not self._is_trusted
            or moment >= self._trust.expires_at
            or state.is_expired(moment)
            or (self._end is not None and moment >= self._end)
        ):
            return {"verdict": "stale"}
        return {"verdict": "clear"}

    def identify(
        self, kind: str, issuer: str, value: str, issued_before: int | None = None
    ) -> dict[str, Any]:
        """Return the warrant identifier of a token."""
        try:
            return {"warrant_id": token_id(kind, issuer, value, issued_before)}
        except ValueError:
            return {"refused": RejectionReason.MALFORMED.value}

    def connect(
        self, *, max_staleness: float, trust_root: str, floor: str, **settings: Any
    ) -> dict[str, Any]:
        """Start a client that polls a service. Its events are printed on standard error."""
        try:
            client = self._client = AuthorizerClient(
                **settings,
                trust_pin=trust_root,
                state=FileStateStore(floor),
                policy=PollPolicy(max_staleness=max_staleness),
                on_event=self._record_event,
                report=False,
            )
        except ValueError as error:
            return {"refused": str(error)}
        with suppress(NotReady):
            client.start()
        return {"ready": True}

    def verdicts(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the verdict on each warrant, and the number of reported failures."""
        if self._client is None:
            raise ValueError("verdicts need a client: send connect first")
        verdicts = [self._client.check([each]).value for each in ids]
        return {"verdicts": verdicts, "failures": self._failures}

    def close(self) -> None:
        """Close the client that `connect` started."""
        if self._client is not None:
            self._client.close()

    def _record_event(self, event: events.Event) -> None:
        self._failures += isinstance(event, events.PollFailed | events.ResponseRejected)
        print(event, file=sys.stderr, flush=True)


_COMMANDS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "init": ConformanceSession.init,
    "trust": ConformanceSession.trust,
    "signing_keys": ConformanceSession.signing_keys,
    "restart": ConformanceSession.restart,
    "poll": ConformanceSession.poll,
    "confirm": ConformanceSession.confirm,
    "check": ConformanceSession.check,
    "identify": ConformanceSession.identify,
    "connect": ConformanceSession.connect,
}


def main() -> None:
    """Answer the requests on standard input until it ends."""
    session = ConformanceSession()
    try:
        for line in sys.stdin:
            print(json.dumps(session.answer(json.loads(line))), flush=True)
    finally:
        session.close()


if __name__ == "__main__":
    main()
