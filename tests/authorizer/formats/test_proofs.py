"""What an authorizer signs: its registration, and its reports."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.members import MalformedBytes
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from tests.authorizer.feeds import NOW, TENANT, signer
from tests.authorizer.roots import public_of

_A, _B = 11, 12
_REGISTRATION = SignedRegistration(TENANT, "gate-1", public_of(_A), NOW)
_REPORT = SignedReport(
    tenant_id=TENANT,
    authorizer_id="svc_aut_01kbm9h2r5c8e1f4g7j0k3m6np",
    number=1_795_262_400_000,
    trust=42,
    sequence=123_456,
    chain=b"c" * 32,
    verified_at=NOW,
    max_staleness=30,
    fail_open=False,
    refused={"rollback": 1},
)
_SECOND = timedelta(seconds=1)


def _reason(call: Callable[[], object]) -> RootReason | None:
    try:
        call()
    except NotTrusted as refused:
        return refused.reason
    return None


def _registered(
    payload: bytes, by: int = _A, now: datetime = NOW, *, prefix: bytes = b"rescind-register-v1\n"
) -> RootReason | None:
    signature = signer(by).sign(prefix + payload)
    return _reason(
        lambda: SignedRegistration.verify_and_decode(payload, signature, tenant_id=TENANT, now=now)
    )


def _reported(
    payload: bytes, by: int = _A, *, prefix: bytes = b"rescind-report-v1\n"
) -> RootReason | None:
    signature = signer(by).sign(prefix + payload)
    return _reason(
        lambda: SignedReport.verify_and_decode(payload, signature, public_key=public_of(_A))
    )


def test_a_registration_proves_that_the_key_is_there() -> None:
    """TRUST-10, F667a: A registration is signed by the key that it names, for this tenant, now.

    It is at most five minutes old.
    """
    payload = _REGISTRATION.encode()
    assert cbor2.loads(payload) == {
        "Name": "gate-1",
        "Tenant": TENANT,
        "IssuedAt": "2026-11-21T12:00:00Z",
        "PublicKey": public_of(_A),
    }
    signature = signer(_A).sign(SignedRegistration.signed_part(payload))
    opened = SignedRegistration.verify_and_decode(payload, signature, tenant_id=TENANT, now=NOW)
    assert opened == _REGISTRATION
    assert _registered(payload, now=NOW + 300 * _SECOND) is None
    assert _registered(payload, now=NOW - 30 * _SECOND) is None


@pytest.mark.parametrize(
    ("reason", "made", "by", "now"),
    [
        (RootReason.SIGNATURE, _REGISTRATION, _B, NOW),
        (RootReason.TENANT, replace(_REGISTRATION, tenant_id="svc_tnt_b"), _A, NOW),
        (RootReason.EXPIRED, _REGISTRATION, _A, NOW + 301 * _SECOND),
        (RootReason.FUTURE, _REGISTRATION, _A, NOW - 31 * _SECOND),
        (RootReason.TOO_LARGE, replace(_REGISTRATION, name="x" * 4096), _A, NOW),
        (RootReason.MALFORMED, replace(_REGISTRATION, public_key=b"\1" + bytes(31)), _A, NOW),
    ],
    ids=str,
)
def test_a_registration_is_refused(
    reason: RootReason, made: SignedRegistration, by: int, now: datetime
) -> None:
    """TRUST-10, F667b: A registration by another key, of another tenant or time is refused."""
    assert _registered(made.encode(), by, now) is reason


def test_a_report_says_what_an_authorizer_holds() -> None:
    """TRUST-10, F668a: A report is signed by the key of the authorizer, and read as written."""
    payload = _REPORT.encode()
    assert cbor2.loads(payload) == {
        "Id": _REPORT.authorizer_id,
        "Chain": b"c" * 32,
        "Trust": 42,
        "Number": 1_795_262_400_000,
        "Tenant": TENANT,
        "Refused": {"rollback": 1},
        "Sequence": 123_456,
        "VerifiedAt": "2026-11-21T12:00:00Z",
        "MaxStaleness": 30,
        "FailOpen": False,
    }
    signature = signer(_A).sign(SignedReport.signed_part(payload))
    assert SignedReport.verify_and_decode(payload, signature, public_key=public_of(_A)) == _REPORT
    size = len(payload) + len(signature)
    print(f"a report: {size} bytes")
    assert size <= 318


def test_a_report_is_that_of_one_authorizer() -> None:
    """TRUST-10, F668b: The report of B for A is refused, and so is an old report of A.

    A report counts for its tenant and its identifier, and only with a number above the last one.
    """
    payload = _REPORT.encode()
    assert _reported(payload, _B) is RootReason.SIGNATURE
    known: dict[str, Any] = {
        "tenant_id": TENANT,
        "authorizer_id": _REPORT.authorizer_id,
        "after": _REPORT.number - 1,
    }
    assert _reason(lambda: _REPORT.check(**known)) is None
    for reason, change in [
        (RootReason.TENANT, {"tenant_id": "svc_tnt_b"}),
        (RootReason.SIGNATURE, {"authorizer_id": "svc_aut_b"}),
        (RootReason.ROLLBACK, {"after": _REPORT.number}),
    ]:
        assert _reason(lambda change=change: _REPORT.check(**known | change)) is reason  # type: ignore[misc]


@pytest.mark.parametrize("open_", [_registered, _reported])
def test_no_byte_of_a_proof_may_be_altered(open_: Callable[..., RootReason | None]) -> None:
    """TRUST-10, F668c: A report or a registration with any byte altered is refused."""
    is_report = open_ is _reported
    payload = (_REPORT if is_report else _REGISTRATION).encode()
    prefix = b"rescind-report-v1\n" if is_report else b"rescind-register-v1\n"
    signature = signer(_A).sign(prefix + payload)

    def opened(payload: bytes, signature: bytes) -> RootReason | None:
        if is_report:
            return _reason(
                lambda: SignedReport.verify_and_decode(payload, signature, public_key=public_of(_A))
            )
        return _reason(
            lambda: SignedRegistration.verify_and_decode(
                payload, signature, tenant_id=TENANT, now=NOW
            )
        )

    assert opened(payload, signature) is None
    for place in range(len(payload)):
        altered = bytearray(payload)
        altered[place] ^= (1, 128)[place % 2]
        assert opened(bytes(altered), signature) is not None, place
    for place in range(len(signature)):
        altered = bytearray(signature)
        altered[place] ^= 1 << place % 8
        assert opened(payload, bytes(altered)) is RootReason.SIGNATURE, place


def test_no_proof_passes_for_another() -> None:
    """TRUST-10, F668d: A signature counts for one kind of statement, and only for that."""
    for prefix in (b"", b"rescind-report-v1\n", b"rescind-trust-v1\n"):
        assert _registered(_REGISTRATION.encode(), prefix=prefix) is RootReason.SIGNATURE
    for prefix in (b"", b"rescind-register-v1\n", b"rescind-trust-v1\n"):
        assert _reported(_REPORT.encode(), prefix=prefix) is RootReason.SIGNATURE
    assert _reported(_REGISTRATION.encode()) is RootReason.MALFORMED


_OTHERS: list[Any] = [1.0, -1, 2**53 + 1, "x", b"x", [], {"a": -1}, {1: 1}, b"c" * 31, None]


@pytest.mark.parametrize("made", [_REGISTRATION, _REPORT], ids=["registration", "report"])
def test_a_malformed_proof_is_refused(made: SignedRegistration | SignedReport) -> None:
    """TRUST-10, F668e: A proof has each member, of its type, and is deterministic CBOR."""
    members = cbor2.loads(made.encode())
    read = type(made).decode
    assert read(cbor2.dumps(members | {"More": [1]}, canonical=True)) == made
    fine = {
        *(("Tenant", "x"), ("Name", "x"), ("Id", "x"), ("Refused", "{}")),
        *(("VerifiedAt", "None"), ("MaxStaleness", "None")),
    }
    for name in members:
        left = {each: value for each, value in members.items() if each != name}
        with pytest.raises(MalformedBytes):
            read(cbor2.dumps(left, canonical=True))
        for other in _OTHERS:
            if (name, str(other)) not in fine:
                with pytest.raises(MalformedBytes):
                    read(cbor2.dumps(members | {name: other}, canonical=True))
    for other in (made.encode()[:-1], cbor2.dumps(dict(reversed(members.items()))), b"\xff", b""):
        with pytest.raises(MalformedBytes):
            read(other)


def test_a_proof_has_a_size() -> None:
    """TRUST-10, F668f: A report of 4,096 bytes is read, and a longer one is refused unread."""
    room = 4096 - len(replace(_REPORT, authorizer_id="x" * 3000).encode())
    longest = replace(_REPORT, authorizer_id="x" * (3000 + room))
    assert len(longest.encode()) == 4096
    assert _reported(longest.encode()) is None
    assert _reported(longest.encode() + b"\0") is RootReason.TOO_LARGE


_NUMBERS = st.integers(0, 2**53)


@given(
    st.none() | _NUMBERS,
    st.none() | st.integers(-(10**9), 10**9).map(lambda each: NOW + each * _SECOND),
    st.none() | _NUMBERS,
    st.dictionaries(st.text(), _NUMBERS, max_size=3),
)
def test_a_report_is_read_as_it_was_written(
    sequence: int | None,
    verified_at: datetime | None,
    max_staleness: int | None,
    refused: dict[str, int],
) -> None:
    """TRUST-10, F668g: Any report is read as it was written, also one that holds nothing yet."""
    made = replace(
        _REPORT,
        sequence=sequence,
        chain=b"" if sequence is None else _REPORT.chain,
        verified_at=verified_at,
        max_staleness=max_staleness,
        refused=refused,
    )
    assert SignedReport.decode(made.encode()) == made
