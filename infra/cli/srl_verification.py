"""`rescind srl verify`: verify a Signed Revocation List offline (docs/spec/srl.md)."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Annotated, Final, TypeVar

from infra import private_files
from infra.cli import inputs
from infra.cli.errors import ExitCode, UsageError, argument, option, public_keys
from infra.cli.output import Output
from infra.cli.trust import Root, state_for_pin
from shared.authorizer import files
from shared.authorizer.formats import documents, strict_json
from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.following import follow
from shared.authorizer.formats.trust import KeyUse
from shared.errors import InvalidSrl
from shared.model import identifiers, times
from shared.model.lists.content import Payload
from shared.model.lists.signers import ServedSigners
from shared.model.lists.verification import (
    MAX_STEP,
    LastAcceptedSrl,
    VerifierPolicy,
    public_key_bytes,
    verify_next,
)

_MEMBERS = {"version", "sha256", "signer", "statements", "revoked"}
_TRUST: Final = "trust"


_REFUSED: Final = "a client rejects the trust documents; docs/spec/feed.md lists the reasons"

T = TypeVar("T")

EXAMPLE: Final = "rescind srl verify srl.json --key 3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg="

ListFile = Annotated[str, argument("FILE", "Saved SRL; - is standard input.")]
TrustFile = Annotated[
    str | None, option("--trust", "With --trust-pin: saved response of GET /v1/trust.", "FILE")
]
OfTenant = Annotated[
    str | None, option("--tenant", "With --trust-pin: tenant (svc_tnt_…).", "TENANT")
]
Keys = Annotated[
    list[bytes] | None,
    public_keys("--key", "Public key of an SRL signer, from a trusted source; may be repeated."),
]
KeyFiles = Annotated[
    list[str] | None,
    option(
        "--keys",
        "Saved page of GET /v1/revocations/srl/keys, for its succession statements; may be "
        "repeated.",
        "FILE",
    ),
]
State = Annotated[
    str | None,
    option("--state", "File that records the last accepted SRL; created if it is missing.", "FILE"),
]
MinVersion = Annotated[int, option("--min-version", "Reject versions below N.", "N", min=1)]
MaxVersionJump = Annotated[
    int,
    option(
        "--max-version-jump",
        "Reject versions more than N above the last accepted version.",
        "N",
        min=1,
    ),
]
Warrants = Annotated[
    list[str] | None,
    option(
        "--warrant",
        "Check whether this warrant is on the SRL; may be repeated.",
        "WARRANT",
        identifiers.warrant_id,
    ),
]


def lock_state(path: Path) -> AbstractContextManager[None]:
    """Lock the state against other verifiers until the block ends. Raises `OSError`."""
    # The folder is locked, because the file itself is replaced.
    return files.lock_folder(path.parent)


def load(path: Path) -> LastAcceptedSrl | None:
    """Return the last accepted SRL, or None if there is no file.

    Raises `OSError`, `InvalidSettings` if others can write to the file, and `ValueError` if it is
    damaged.
    """
    private_files.check_file(path)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        document = strict_json.parse(text)
        if set(document) - {_TRUST} != _MEMBERS:
            raise ValueError(f"its members are {', '.join(sorted(_MEMBERS))}")
        version, sha256, statements = (
            document[each] for each in ("version", "sha256", "statements")
        )
        if type(version) is not int or version < 1:
            raise ValueError("version is a positive integer")
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise ValueError("sha256 has 64 hexadecimal digits")
        if not all(isinstance(each, dict) for each in statements):
            raise ValueError("statements are objects")
        revoked = frozenset(map(public_key_bytes, document["revoked"]))
        signer = public_key_bytes(document["signer"])
        return LastAcceptedSrl(
            version, sha256, signer, tuple(statements), revoked, document.get(_TRUST, "")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"is damaged, or is not a state of a verifier ({error}); to start again, delete it and "
            "set --min-version to the last accepted version"
        ) from None


def save(path: Path, last_accepted: LastAcceptedSrl) -> None:
    """Replace the file atomically. Call within `lock_state`. Raises `OSError`."""
    document = {
        "version": last_accepted.version,
        "sha256": last_accepted.sha256,
        "signer": base64.b64encode(last_accepted.signer).decode(),
        "statements": [dict(each) for each in last_accepted.statements],
        "revoked": sorted(base64.b64encode(each).decode() for each in last_accepted.revoked),
    }
    if last_accepted.trust:
        document[_TRUST] = last_accepted.trust
    files.replace(path, json.dumps(document, indent=1).encode())


def verify(
    out: Output,
    file: ListFile,
    key: Keys = None,
    root: Root = None,
    trust: TrustFile = None,
    tenant: OfTenant = None,
    keys: KeyFiles = None,
    state: State = None,
    min_version: MinVersion = 1,
    max_version_jump: MaxVersionJump = MAX_STEP,
    warrant: Warrants = None,
) -> int:
    """Verify a saved SRL offline.

    Exit codes: 0 valid, 1 not valid, 2 wrong usage, 3 valid and a `--warrant` is revoked.
    """
    body = inputs.read_document(file)
    pages = [
        _use(name, lambda name: ServedSigners.parse(inputs.read_document(name)))
        for name in keys or []
    ]
    policy = VerifierPolicy(
        key or (),
        reduce(ServedSigners.merge, pages, ServedSigners()),
        min_version,
        max_version_jump,
    )
    given_trust = None
    if root is None and not key:
        raise UsageError("give --trust-pin with --trust and --tenant, or --key")
    if root is not None:
        if key or trust is None or tenant is None:
            raise UsageError("--trust-pin requires --trust and --tenant, and excludes --key")
        given_trust = GivenTrust(tenant, root, inputs.read_document(trust))
    try:
        payload = _accept_and_save(body, policy, state, given_trust)
    except NotTrusted as error:
        refused = {"valid": False, "reason": error.reason.value, "message": _REFUSED}
        out.show(refused, f"not valid ({error.reason}): {_REFUSED}")
        return ExitCode.FAILED
    except InvalidSrl as error:
        refused = {"valid": False, "reason": error.reason, "message": str(error)}
        out.show(refused, f"not valid ({error.reason}): {error}")
        return ExitCode.FAILED
    revoked_ids = set(payload.revoked_ids) if warrant else set()
    listed = {each: each in revoked_ids for each in warrant or []}
    verdicts = {each: {"revoked": is_revoked} for each, is_revoked in listed.items()}
    document = {"valid": True, **summarize(payload), "warrants": verdicts}
    out.show(document, f"valid: {format_lines(payload, listed)}")
    return ExitCode.REVOKED if any(listed.values()) else ExitCode.DONE


@dataclass(frozen=True, slots=True)
class GivenTrust:
    """Trust documents from a response of GET /v1/trust, and the pin of their trust root."""

    tenant_id: str
    pin: str
    answer: bytes

    def policy(
        self, policy: VerifierPolicy, last_accepted: LastAcceptedSrl | None, now: datetime
    ) -> tuple[VerifierPolicy, LastAcceptedSrl | None, str]:
        """Return the policy of the newest document, the applicable last SRL, and the trust state.

        A last SRL is ignored if the document does not name its signer (TRUST-14). Raises
        `NotTrusted`, or `ValueError` if the saved state is damaged or of another tenant.
        """
        start = state_for_pin(
            self.tenant_id, self.pin, last_accepted.trust.encode() if last_accepted else b""
        )
        state = follow(start, documents.documents(self.answer), now)
        if state.held is None:
            raise NotTrusted(RootReason.ROOT)
        if now >= state.held.document.expires_at:
            raise NotTrusted(RootReason.TRUST_EXPIRED)
        named = state.keys_for_use(KeyUse.LISTS)
        counts = (
            replace(last_accepted, statements=())
            if last_accepted and last_accepted.signer in named
            else None
        )
        return replace(policy, pinned=named), counts, json.dumps(state.to_json())


def _accept_and_save(
    body: bytes, policy: VerifierPolicy, name: str | None, given_trust: GivenTrust | None
) -> Payload:
    """Verify the SRL, save the state, and return the payload.

    Raises `InvalidSrl` or `NotTrusted`.
    """
    state = Path(name) if name else None
    try:
        with lock_state(state) if state else nullcontext():
            seen = _use(str(name), lambda _: load(state)) if state else None
            now, before, trust = datetime.now(UTC), seen, ""
            if given_trust:
                policy, before, trust = _use(
                    str(name), lambda _: given_trust.policy(policy, seen, now)
                )
            payload, now_seen = verify_next(body, policy, last_accepted=before, now=now)
            now_seen = replace(now_seen, trust=trust)
            if state and now_seen != seen:
                save(state, now_seen)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    return payload


def _use(name: str, read: Callable[[str], T]) -> T:
    try:
        return read(name)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def summarize(payload: Payload) -> dict[str, object]:
    """Return the fields of an SRL for a document."""
    return {
        "version": payload.version,
        "issued_at": times.format_utc(payload.issued_at),
        "expires_at": times.format_utc(payload.expires_at),
        "revocation_count": len(payload.revoked_ids),
    }


def format_lines(payload: Payload, listed: Mapping[str, bool] = {}) -> str:
    """Return a line about an SRL, and a line for each warrant that may be on it."""
    first = (
        f"version {payload.version}, issued {times.format_utc(payload.issued_at)}, "
        f"expires {times.format_utc(payload.expires_at)}, {len(payload.revoked_ids)} revoked"
    )
    words = {True: "revoked", False: "not on the SRL"}
    return "\n".join([first, *(f"{each}: {words[listed[each]]}" for each in listed)])
