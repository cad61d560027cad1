"""`rescind list verify`: verify a Signed Revocation List offline (docs/srl.md)."""

import sys
from bisect import bisect_left
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from infra import verifier_state
from infra.cli.errors import Exit, WrongUsage
from infra.cli.output import Output
from infra.cli.values import checked
from shared.authorizer.signers import Reported
from shared.errors import InvalidSrl
from shared.model import identifiers, times
from shared.model.srl.encoding import Payload
from shared.model.srl.verification import public_key_bytes
from shared.model.srl.verifier import MAX_STEP, Policy, verify_next

T = TypeVar("T")

EXAMPLE: Final = "rescind list verify srl.json --key 3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg="

ListFile = Annotated[str, typer.Argument(metavar="FILE", help="The saved list; - for stdin.")]
Keys = Annotated[
    list[bytes],
    typer.Option(
        "--key",
        parser=checked(public_key_bytes),
        metavar="BASE64",
        help="A public key that may have signed, from a source that you trust; may be repeated.",
    ),
]
KeyFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="Saved answer of GET /v1/revocations/srl/keys, whose statements are followed; may be "
        "repeated, for its pages.",
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Remembers what was accepted; it is made if it is not there."
    ),
]
MinVersion = Annotated[int, typer.Option(min=1, metavar="N", help="Refuse versions below N.")]
MaxStep = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Refuse versions more than N above that of the state."),
]
Warrants = Annotated[
    list[str] | None,
    typer.Option(
        "--warrant",
        parser=checked(identifiers.warrant_id),
        metavar="WARRANT",
        help="Say whether this warrant is on the list; may be repeated.",
    ),
]


def verify(
    out: Output,
    file: ListFile,
    key: Keys,
    keys: KeyFiles = None,
    state: State = None,
    min_version: MinVersion = 1,
    max_step: MaxStep = MAX_STEP,
    warrant: Warrants = None,
) -> int:
    """Verify a list that was saved to a file, without the service.

    Exit codes: 0 valid, 1 not valid, 2 wrong usage, 3 valid and a `--warrant` is revoked.
    """
    body = _use(file, _file_bytes)
    pages = [_use(name, _reported) for name in keys or []]
    policy = Policy(key, reduce(Reported.joined, pages, Reported()), min_version, max_step)
    try:
        payload = _accepted(body, policy, state)
    except InvalidSrl as error:
        refused = {"valid": False, "reason": error.reason, "message": str(error)}
        out.show(refused, f"not valid ({error.reason}): {error}")
        return Exit.FAILED
    listed = {each: _is_listed(payload, each) for each in warrant or []}
    out.show(_summary(payload, listed), _lines(payload, listed))
    return Exit.REVOKED if any(listed.values()) else Exit.DONE


def _accepted(body: bytes, policy: Policy, name: str | None) -> Payload:
    """Return the list after it is accepted and the state is saved. Raises `InvalidSrl`."""
    state = Path(name) if name else None
    try:
        with verifier_state.locked(state) if state else nullcontext():
            seen = _use(str(name), lambda _: verifier_state.load(state)) if state else None
            payload, now_seen = verify_next(body, policy, seen=seen, now=datetime.now(UTC))
            if state and now_seen != seen:
                verifier_state.save(state, now_seen)
    except OSError as error:
        raise WrongUsage(f"{name}: {error.strerror}") from None
    return payload


def _use(name: str, read: Callable[[str], T]) -> T:
    try:
        return read(name)
    except OSError as error:
        raise WrongUsage(f"{name}: {error.strerror}") from None
    except ValueError as error:
        raise WrongUsage(f"{name}: {error}") from None


def _file_bytes(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


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
