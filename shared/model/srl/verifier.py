"""What a verifier keeps from one list to the next, and what it refuses because of it (VERIFY-3)."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from shared.authorizer import statements as srl_statements
from shared.authorizer.signers import Reported
from shared.authorizer.statements import Form
from shared.errors import InvalidSrl, SrlReason
from shared.model.srl.encoding import Payload
from shared.model.srl.verification import verify_by_one_of

# One list a second for eleven days. After a version far above this, all later lists would be
# refused.
MAX_STEP: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What a verifier accepts: its `pinned` raw keys, and what the service `reported` about others.

    A list is refused if its version is below `min_version`, or more than `max_step` above the last.
    """

    pinned: Iterable[bytes]
    reported: Reported = field(default_factory=Reported)
    min_version: int = 1
    max_step: int = MAX_STEP


@dataclass(frozen=True, slots=True)
class Seen:
    """The last list that was accepted.

    `sha256` is the hash of the signed bytes, in hex. `signer` is the raw key that signed them, and
    `statements` lead to it from a pinned key. `revoked` are all raw keys that were ever reported as
    revoked and had signed something (FEED-9).
    """

    version: int
    sha256: str
    signer: bytes
    statements: tuple[Form, ...] = ()
    revoked: frozenset[bytes] = field(default_factory=frozenset)


def verify_next(
    body: bytes, policy: Policy, *, seen: Seen | None, now: datetime
) -> tuple[Payload, Seen]:
    """Return the content of the next list, and what the verifier must keep (VERIFY-3).

    The signer must be a pinned key, or one that statements of `policy` or `seen` lead to from a
    pinned key, and must not be revoked. The version must not be below that of `seen`, nor equal
    with another content, nor more than `max_step` above it. Raises `InvalidSrl`, also if a check of
    `verify` fails.
    """
    before = (seen.statements, seen.revoked) if seen else ((), frozenset[bytes]())
    revoked = before[1] | policy.reported.revoked
    statements = [*before[0], *policy.reported.statements]
    signed = srl_statements.authors(statements) | ({seen.signer} if seen else set())
    kept = before[1] | revoked & signed
    believed = srl_statements.follow(policy.pinned, statements, revoked=revoked)
    verified = verify_by_one_of(body, public_keys=believed, now=now, min_version=policy.min_version)
    version, sha256 = verified.payload.version, hashlib.sha256(verified.signed).hexdigest()
    if seen is not None:
        _check_step(version, sha256, seen, policy.max_step)
    chain = tuple(believed[verified.signer])
    return verified.payload, Seen(version, sha256, verified.signer, chain, kept)


def _check_step(version: int, sha256: str, seen: Seen, max_step: int) -> None:
    if version < seen.version:
        raise InvalidSrl(SrlReason.ROLLBACK, f"version {version} is older than {seen.version}")
    if version == seen.version and sha256 != seen.sha256:
        raise InvalidSrl(
            SrlReason.EQUIVOCATION, f"another list of version {version} was accepted before"
        )
    if version - seen.version > max_step:
        raise InvalidSrl(
            SrlReason.STEP, f"version {version} is {version - seen.version} above the last one"
        )
