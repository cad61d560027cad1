"""Verify a Signed Revocation List offline: the response of the SRL endpoint, saved to a file.

Exit codes: 0 valid, 1 not valid, 2 wrong usage, 3 valid and a --warrant is revoked.
docs/srl.md explains the checks and their reasons.
"""

import argparse
import json
import sys
from bisect import bisect_left
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, Final

from infra import command_line, verifier_state
from shared.authorizer.signers import Reported
from shared.errors import InvalidSettings, InvalidSrl
from shared.model import identifiers, times
from shared.model.srl.encoding import Payload
from shared.model.srl.verification import public_key_bytes
from shared.model.srl.verifier import MAX_STEP, Policy, verify_next

_VALID, _NOT_VALID, _WRONG_USAGE, _REVOKED = range(4)

_HELP: Final = {
    "key": "public key that may have signed, from a source that you trust; may be repeated",
    "keys": "saved answer of GET /v1/revocations/srl/keys, whose statements are followed; may be "
    "repeated, for its pages",
    "state": "file that remembers what was accepted; it is made if it is not there",
    "max-step": "refuse versions more than N above that of the state (default %(default)s)",
    "warrant": "say whether this warrant is on the list; may be repeated",
}


class _CannotUse(Exception):
    """A file cannot be used; the message says why."""


def main() -> int:
    """Verify one file and return the exit code."""
    arguments = _arguments()
    try:
        payload = _verified(arguments)
    except _CannotUse as error:
        print(error, file=sys.stderr)
        return _WRONG_USAGE
    except InvalidSrl as error:
        refused = {"valid": False, "reason": error.reason, "message": str(error)}
        _print(arguments, refused, f"not valid ({error.reason}): {error}")
        return _NOT_VALID
    warrants = {each: _is_listed(payload, each) for each in arguments.warrant}
    _print(arguments, _summary(payload, warrants), _lines(payload, warrants))
    return _REVOKED if any(warrants.values()) else _VALID


def _verified(arguments: argparse.Namespace) -> Payload:
    """Return the list after it is accepted and the state is saved. Raises `InvalidSrl`."""
    body = _use(arguments.file, command_line.file_bytes)
    pages = [_use(name, _reported) for name in arguments.keys]
    reported = reduce(Reported.joined, pages, Reported())
    policy = Policy(arguments.key, reported, arguments.min_version, arguments.max_step)
    state = Path(arguments.state) if arguments.state else None
    lock = verifier_state.locked(state) if state else nullcontext()
    try:
        with lock:
            seen = _use(arguments.state, lambda _: verifier_state.load(state)) if state else None
            payload, now_seen = verify_next(body, policy, seen=seen, now=datetime.now(UTC))
            if state and now_seen != seen:
                verifier_state.save(state, now_seen)
    except OSError as error:
        raise _CannotUse(f"{arguments.state}: {error.strerror}") from None
    return payload


def _use(name: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(name)
    except OSError as error:
        raise _CannotUse(f"{name}: {error.strerror}") from None
    except ValueError as error:
        raise _CannotUse(f"{name}: {error}") from None
    except InvalidSettings as error:
        raise _CannotUse(str(error)) from None


def _reported(name: str) -> Reported:
    return Reported.parse(Path(name).read_bytes())


def _is_listed(payload: Payload, warrant_id: str) -> bool:
    index = bisect_left(payload.revoked_ids, warrant_id)
    return payload.revoked_ids[index : index + 1] == [warrant_id]


def _summary(payload: Payload, warrants: dict[str, bool]) -> dict[str, object]:
    return {
        "valid": True,
        "version": payload.version,
        "issued_at": times.text(payload.issued_at),
        "expires_at": times.text(payload.expires_at),
        "revocation_count": len(payload.revoked_ids),
        "warrants": {each: {"revoked": revoked} for each, revoked in warrants.items()},
    }


def _lines(payload: Payload, warrants: dict[str, bool]) -> str:
    first = (
        f"valid: version {payload.version}, issued {times.text(payload.issued_at)}, "
        f"expires {times.text(payload.expires_at)}, {len(payload.revoked_ids)} revoked"
    )
    words = {True: "revoked", False: "not on the list"}
    return "\n".join([first, *(f"{each}: {words[listed]}" for each, listed in warrants.items())])


def _print(arguments: argparse.Namespace, document: dict[str, object], text: str) -> None:
    print(json.dumps(document) if arguments.json else text)


def _arguments() -> argparse.Namespace:
    parser = command_line.parser("verify_srl", __doc__)
    add = parser.add_argument
    add("file", metavar="FILE", help="- for stdin")
    key = command_line.checked(public_key_bytes)
    warrant = command_line.checked(identifiers.warrant_id)
    number = command_line.checked(_positive)
    add("--key", type=key, action="append", required=True, metavar="BASE64", help=_HELP["key"])
    add("--keys", action="append", default=[], metavar="FILE", help=_HELP["keys"])
    add("--state", metavar="FILE", help=_HELP["state"])
    add("--min-version", type=number, default=1, metavar="N", help="reject versions below N")
    add("--max-step", type=number, default=MAX_STEP, metavar="N", help=_HELP["max-step"])
    add("--warrant", type=warrant, action="append", default=[], metavar="ID", help=_HELP["warrant"])
    add("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def _positive(value: str) -> int:
    number = int(value) if value.isascii() and value.isdecimal() else 0
    if number < 1:
        raise ValueError("must be a positive integer")
    return number


if __name__ == "__main__":
    sys.exit(main())
