"""Verification of Signed Revocation Lists before they are accepted (VERIFY-1).

The publisher makes the same checks before it publishes an SRL (SRL-8).
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from operator import lt
from typing import Any, Final

import cbor2

from shared.authorizer.formats import ed25519, strict_json
from shared.errors import InvalidSrl, SrlReason
from shared.model import identifiers, times
from shared.model.lists import content as srl
from shared.model.lists import signers as srl_statements
from shared.model.lists.content import Payload
from shared.model.lists.signers import Form, ServedSigners

LIFETIME_MAX: Final = timedelta(days=7)

# A verifier that accepted a larger version would reject every later SRL as a rollback. At one SRL
# per second, this version is reached after thirty thousand years.
VERSION_MAX: Final = 10**12 - 1

# The characters of base64 that encode three bytes.
_GROUP: Final = 4


# One SRL per second for eleven days. After a version far above this, all later SRLs would be
# rejected.
MAX_STEP: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class VerifiedSrl:
    """An SRL that passed every check, the signed bytes, and the raw public key of its signer."""

    payload: Payload
    signed: bytes
    signer: bytes


def verify(body: bytes, *, public_key: bytes, now: datetime, min_version: int = 1) -> Payload:
    """Verify a response body of the SRL endpoint, and return its content (VERIFY-1).

    `public_key` is the 32 raw bytes of the signer. An SRL below `min_version`, the highest version
    accepted so far, is a rollback. Raises `InvalidSrl`.
    """
    return verify_by_one_of(
        body, public_keys=[public_key], now=now, min_version=min_version
    ).payload


def verify_by_one_of(
    body: bytes, *, public_keys: Iterable[bytes], now: datetime, min_version: int = 1
) -> VerifiedSrl:
    """Verify an SRL signed with any of several keys, as `verify` does."""
    shown, encoded, signature = _open(body)
    signer = _signer(encoded, signature, public_keys)
    try:
        members = cbor2.loads(encoded)
        # A difference means duplicate keys, tags, or another order.
        if cbor2.dumps(members, canonical=True) != encoded:
            raise ValueError("another encoding is canonical")
    except (cbor2.CBORError, UnicodeError, RecursionError, TypeError, ValueError):
        problem = "Payload is not deterministically encoded CBOR"
        raise InvalidSrl(SrlReason.ENCODING, problem) from None
    payload = _content(members)
    # Python has `1 == True == 1.0`, but only an integer was signed.
    if shown != members or type(shown["Version"]) is not int:
        raise InvalidSrl(SrlReason.MIXED, "payload differs from the signed Payload")
    _check(payload, now)
    if payload.version < min_version:
        problem = f"version {payload.version} is older than {min_version}"
        raise InvalidSrl(SrlReason.ROLLBACK, problem)
    return VerifiedSrl(payload, encoded, signer)


def verify_own(body: bytes, payload: Payload, *, public_key: bytes, now: datetime) -> None:
    """Check that `body` shows `payload`, and that `verify` would accept it at `now`.

    The publisher uses this function because it is faster than `verify`. It compares the body with
    the expected bytes, and so parses neither JSON nor base64. It decodes the CBOR as clients do.
    Raises `InvalidSrl`.
    """
    try:
        signature = _decode_base64(srl.signature(body, shows=payload))
        members = cbor2.loads(payload.cbor)
    except (ValueError, cbor2.CBORError) as error:
        raise InvalidSrl(SrlReason.MALFORMED, f"not the expected response: {error}") from None
    _signer(payload.cbor, signature, [public_key])
    if members != payload.members():
        raise InvalidSrl(
            SrlReason.MIXED, "the signed content differs from what was to be published"
        )
    # These equal the identifiers of the payload, but are adjacent in memory, which is faster.
    revoked_ids = members["RevokedIDs"]
    if not identifiers.are_warrant_ids(revoked_ids):
        raise InvalidSrl(SrlReason.CONTENT, "RevokedIDs has an invalid warrant identifier")
    _check(replace(payload, revoked_ids=revoked_ids), now)


def public_key_bytes(value: str) -> bytes:
    """Return the raw public key from base64. Raises `ValueError` if the key is not safe."""
    key = _base64(value)
    if len(key) != ed25519.PUBLIC_KEY_BYTES:
        raise ValueError(
            f"a public key has {ed25519.PUBLIC_KEY_BYTES} bytes, this one has {len(key)}"
        )
    if not ed25519.is_safe(key):
        raise ValueError("this key is a point of small order, so anyone can forge its signatures")
    return key


def _open(body: bytes) -> tuple[Any, bytes, bytes]:
    try:
        document = strict_json.parse(body)
        shown, signed = _members(document, "payload", "srl")
        payload, signature = _members(signed, "Payload", "Signature")
        return shown, _base64(payload), _base64(signature)
    except (TypeError, ValueError) as error:
        raise InvalidSrl(
            SrlReason.MALFORMED, f"not a response of the SRL endpoint: {error}"
        ) from None


def _members(value: Any, *names: str) -> list[Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise TypeError(f"an object with the members {' and '.join(names)} is expected")
    return [value[name] for name in names]


def _base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("base64 text is expected")
    return _decode_base64(text.encode())


def _decode_base64(text: bytes | memoryview) -> bytes:
    try:
        decoded = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise ValueError("padded base64 of the standard alphabet is expected") from None
    # Only zero spare bits in the last group are accepted. Otherwise several texts would encode the
    # same bytes.
    if not bytes(text[-_GROUP:]).endswith(base64.b64encode(decoded[len(decoded) // 3 * 3 :])):
        raise ValueError("base64 with zero spare bits is expected")
    return decoded


def _signer(data: bytes, signature: bytes, public_keys: Iterable[bytes]) -> bytes:
    for key in public_keys:
        if ed25519.is_signed(data, signature, public_key=key):
            return key
    raise InvalidSrl(SrlReason.SIGNATURE, "none of the given keys made the signature")


def _content(members: Any) -> Payload:
    try:
        version, issued_at, expires_at, revoked_ids = _members(
            members, "Version", "IssuedAt", "ExpiresAt", "RevokedIDs"
        )
        if type(version) is not int or version < 1:
            raise TypeError("Version is a positive integer")
        is_texts = isinstance(revoked_ids, list) and set(map(type, revoked_ids)) <= {str}
        if not (is_texts and identifiers.are_warrant_ids(revoked_ids)):
            raise TypeError("RevokedIDs is an array of warrant identifiers")
        return Payload(version, _moment(issued_at), _moment(expires_at), revoked_ids)
    except (TypeError, ValueError) as error:
        raise InvalidSrl(SrlReason.CONTENT, f"the signed content is not an SRL: {error}") from None


def _moment(value: Any) -> datetime:
    if not isinstance(value, str):
        raise TypeError("a time is text")
    moment = times.parse(value)
    if times.format_utc(moment) != value:
        raise ValueError("a time is in UTC, whole seconds, with Z")
    return moment


def _check(payload: Payload, now: datetime) -> None:
    ids = payload.revoked_ids
    if not all(map(lt, ids, islice(ids, 1, None))):
        raise InvalidSrl(
            SrlReason.ORDER, "RevokedIDs is not sorted bytewise, or repeats an identifier"
        )
    lifetime = payload.expires_at - payload.issued_at
    # An SRL with a longer lifetime could be replayed in place of all later ones.
    if not timedelta(0) < lifetime <= LIFETIME_MAX:
        raise InvalidSrl(SrlReason.TIMES, "ExpiresAt is not after IssuedAt, by at most 7 days")
    if times.is_ahead(payload.issued_at, now):
        raise InvalidSrl(
            SrlReason.FUTURE, f"issued in the future, at {times.format_utc(payload.issued_at)}"
        )
    if payload.expires_at <= now:
        raise InvalidSrl(SrlReason.EXPIRED, f"expired at {times.format_utc(payload.expires_at)}")
    if payload.version > VERSION_MAX:
        raise InvalidSrl(SrlReason.VERSION, f"version {payload.version} is too high")


@dataclass(frozen=True, slots=True)
class VerifierPolicy:
    """Trust of a verifier: the `pinned` raw keys, and other keys that the service `reported`.

    An SRL is rejected if its version is below `min_version`, or more than `max_step` above the
    last.
    """

    pinned: Iterable[bytes]
    reported: ServedSigners = field(default_factory=ServedSigners)
    min_version: int = 1
    max_step: int = MAX_STEP


@dataclass(frozen=True, slots=True)
class LastAcceptedSrl:
    """The last accepted SRL.

    `sha256` is the hash of the signed bytes, in hex. `signer` is the raw key that signed them, and
    `statements` lead to it from a pinned key. `revoked` contains all raw keys that were ever
    reported as revoked and had signed. `trust` is the response with the current trust document, as
    JSON, or empty without one.
    """

    version: int
    sha256: str
    signer: bytes
    statements: tuple[Form, ...] = ()
    revoked: frozenset[bytes] = field(default_factory=frozenset)
    trust: str = ""


def verify_next(
    body: bytes, policy: VerifierPolicy, *, last_accepted: LastAcceptedSrl | None, now: datetime
) -> tuple[Payload, LastAcceptedSrl]:
    """Verify the next SRL, and return its content and the new verifier state (VERIFY-3).

    The verifier must keep the state. The signer must be pinned, or statements of `policy` or
    `last_accepted` must lead to it from a pinned key. It must not be revoked. The version must not
    be below the version of `last_accepted`, equal with different content, or more than `max_step`
    above it. Raises `InvalidSrl`, also if a check of `verify` fails.
    """
    statements, revoked_before = list(policy.reported.statements), frozenset[bytes]()
    signers = set[bytes]()
    if last_accepted is not None:
        statements = [*last_accepted.statements, *statements]
        revoked_before, signers = last_accepted.revoked, {last_accepted.signer}
    revoked = revoked_before | policy.reported.revoked
    signers |= srl_statements.authors(statements)
    chains = srl_statements.follow(policy.pinned, statements, revoked_keys=revoked)
    verified = verify_by_one_of(body, public_keys=chains, now=now, min_version=policy.min_version)
    version, sha256 = verified.payload.version, hashlib.sha256(verified.signed).hexdigest()
    if last_accepted is not None:
        step = version - last_accepted.version
        if step < 0:
            raise InvalidSrl(
                SrlReason.ROLLBACK, f"version {version} is older than {last_accepted.version}"
            )
        if not step and sha256 != last_accepted.sha256:
            raise InvalidSrl(
                SrlReason.EQUIVOCATION, f"another SRL of version {version} was accepted before"
            )
        if step > policy.max_step:
            raise InvalidSrl(SrlReason.STEP, f"version {version} is {step} above the last version")
    chain, ended = tuple(chains[verified.signer]), revoked_before | revoked & signers
    return verified.payload, LastAcceptedSrl(version, sha256, verified.signer, chain, ended)
