"""Puts this client through the conformance suite: requests and answers are lines of JSON.

docs/feed.md describes the requests. `python -m rescind_authorizer conformance` starts it.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from .answers import parse_answer
from .formats.statements import ReportedSigners
from .policy import NeedsBase, RefusedAnswer
from .signers import Trust
from .state import Position, State


class Session:
    """A client without a network: it is told the time, the answers, and the bases."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._trust = Trust("", frozenset())
        self._floor: Position | None = None
        self._end: datetime | None = None  # without news; None if no bound was given

    def answer(self, request: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the answer to a request: its one member names what is asked."""
        ((name, given),) = request.items()
        return _COMMANDS[name](self, **given)

    def init(
        self, tenant: str, public_keys: list[str], floor: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Begin without a state; `floor` is the position that was saved before, if any."""
        self._state = self._end = None
        self._trust = Trust(tenant, frozenset(base64.b64decode(each) for each in public_keys))
        self._floor = None
        if floor is not None:
            self._floor = Position(floor["sequence"], base64.b64decode(floor["chain"]))
        return {"ready": True}

    def keys(self, response: str) -> dict[str, Any]:
        """Take a response of `GET /v1/revocations/srl/keys`."""
        self._trust = self._trust.with_report(ReportedSigners.parse(response.encode()))
        return {"ready": True}

    def restart(self) -> dict[str, Any]:
        """Stop, and start with the floor and the signers that were saved."""
        if self._state:
            self._floor = self._state.position
        self._state, self._end, self._trust = None, None, self._trust.restarted()
        return {"ready": True}

    def poll(self, now: str, answer: str, base: str | None) -> dict[str, Any]:
        """Take an answer, with the base that the head names if the case has it at hand."""
        try:
            self._state = self._trust.advance(
                self._state,
                parse_answer(answer.encode()),
                base=None if base is None else base64.b64decode(base),
                now=datetime.fromisoformat(now),
                floor=self._floor,
            )
        except RefusedAnswer as refused:
            return {"refused": refused.reason.value}
        except NeedsBase as needs:
            return {"needs_base": needs.base.version}
        self._trust = self._trust.with_current(self._state.signed_by)
        return {"sequence": self._state.sequence}

    def confirm(self, now: str, age: int, max_staleness: int) -> dict[str, Any]:
        """Learn that the head is that of the answer to a request of `now`, which had this `Age`."""
        end = datetime.fromisoformat(now) + timedelta(seconds=max_staleness - age)
        self._end = end if self._end is None else max(self._end, end)
        return {"ready": True}

    def check(self, now: str, ids: list[str]) -> dict[str, Any]:
        """Return what an authorizer would decide at this time about a chain of warrants."""
        state, moment = self._state, datetime.fromisoformat(now)
        if state and any(map(state.is_revoked, ids)):
            return {"verdict": "revoked"}
        revoked = self._trust.revoked
        if (
            state is None
            or state.signed_by in revoked
            or state.is_expired(moment)
            or (self._end is not None and moment >= self._end)
        ):
            return {"verdict": "stale"}
        return {"verdict": "clear"}


_COMMANDS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "init": Session.init,
    "keys": Session.keys,
    "restart": Session.restart,
    "poll": Session.poll,
    "confirm": Session.confirm,
    "check": Session.check,
}


def main() -> None:
    """Answer the requests on standard input until it ends."""
    session = Session()
    for line in sys.stdin:
        print(json.dumps(session.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
