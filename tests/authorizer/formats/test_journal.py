"""The journal of publications, which a restore replays."""

import hashlib
from dataclasses import replace
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.journal import FIRST, JournalRecord
from shared.authorizer.formats.members import MalformedBytes
from shared.authorizer.formats.trust import LogAnchor
from shared.authorizer.formats.wire import FeedEntry
from tests.authorizer.feeds import ENTRY, NOW, TENANT, signer
from tests.authorizer.roots import LIST, STANDBY, public_of

_NUMBER = JournalRecord(
    tenant_id=TENANT,
    number=5,
    previous=b"p" * 32,
    issued_at=NOW,
    sequence=2**20 + 9,
    changes=2,
    entries=(ENTRY.encode(), FeedEntry(2**20 + 8).encode()),
    ends=(b"\x82\xf6\x01", b"\x80"),
    tombstones={"Changes": 3, "ApiKeys": [{"id": "svc_ak_a"}]},
    trust=42,
    log=LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32),
)


def _refused(payload: bytes, by: int = LIST, tenant_id: str = TENANT) -> RootReason:
    signature = signer(by).sign(JournalRecord.signed_part(payload))
    with pytest.raises(NotTrusted) as refused:
        JournalRecord.verify_and_decode(
            payload, signature, public_key=public_of(LIST), tenant_id=tenant_id
        )
    return refused.value.reason


def test_a_number_of_the_journal_has_the_members_that_the_page_lists() -> None:
    """TRUST-11, F670a: A number names entries, tombstones, log, document, and the one before it."""
    payload = _NUMBER.encode()
    assert cbor2.loads(payload) == {
        "Tenant": TENANT,
        "Number": 5,
        "Previous": b"p" * 32,
        "IssuedAt": "2026-11-21T12:00:00Z",
        "Sequence": 2**20 + 9,
        "Changes": 2,
        "Entries": list(_NUMBER.entries),
        "Ends": list(_NUMBER.ends),
        "Tombstones": {"Changes": 3, "ApiKeys": [{"id": "svc_ak_a"}]},
        "Trust": 42,
        "Log": {"Origin": f"rescind/{TENANT}/1", "Size": 12345, "Root": b"r" * 32},
    }
    assert JournalRecord.signed_part(payload) == b"rescind-journal-v1\n" + payload
    signature = signer(LIST).sign(JournalRecord.signed_part(payload))
    opened = JournalRecord.verify_and_decode(
        payload, signature, public_key=public_of(LIST), tenant_id=TENANT
    )
    assert opened == _NUMBER


def test_a_number_of_the_journal_is_refused() -> None:
    """TRUST-11, F670b: A number by another signer, of another tenant or form is refused."""
    payload = _NUMBER.encode()
    assert _refused(payload, STANDBY) is RootReason.SIGNATURE
    assert _refused(payload, tenant_id="svc_tnt_b") is RootReason.TENANT
    members = cbor2.loads(payload)
    entries = members["Entries"]
    others: dict[str, list[Any]] = {
        "Entries": [entries[::-1], entries[:1] * 2, [b"\xff"], [1], {}],
        "Previous": [b"p" * 31, None],
        "Tombstones": [[], {1: 1}],
        "Log": [None, {}],
        "Ends": [[], [b""] * 3, [1, 2], b""],
        "Sequence": [2**20 + 7, None],
        "Changes": [-1],
        "Number": [-1],
        "Trust": [None],
        "IssuedAt": [1],
        "Tenant": [1],
    }
    for name, value in ((name, value) for name, values in others.items() for value in values):
        changed = cbor2.dumps(members | {name: value}, canonical=True)
        assert _refused(changed) is RootReason.MALFORMED, (name, value)
    for name in set(members) - {"Log"}:
        left = {each: value for each, value in members.items() if each != name}
        with pytest.raises(MalformedBytes):
            JournalRecord.decode(cbor2.dumps(left, canonical=True))
    assert _refused(cbor2.dumps(dict(reversed(members.items())))) is RootReason.MALFORMED


def test_numbers_of_the_journal_follow_each_other() -> None:
    """TRUST-11, F670c: A gap, a repetition or another past in the journal is seen."""
    one = replace(_NUMBER, number=1, previous=FIRST, log=None)
    two = replace(one, number=2, previous=hashlib.sha256(one.encode()).digest())
    assert two.follows(one.encode(), 1)
    assert not two.follows(replace(one, trust=41).encode(), 1)
    assert not two.follows(one.encode(), 2)
    assert not replace(two, number=3).follows(one.encode(), 1)


@given(
    st.sets(st.integers(0, 2**53), max_size=3),
    st.dictionaries(st.text(), st.lists(st.text()) | st.none() | st.integers(0, 9), max_size=3),
    st.none() | st.builds(LogAnchor, st.text(), st.integers(0, 2**53), st.just(b"r" * 32)),
)
def test_a_number_is_read_as_it_was_written(
    sequences: set[int], tombstones: dict[str, Any], log: LogAnchor | None
) -> None:
    """TRUST-11, F670d: Any number of the journal is read as it was written."""
    entries = tuple(FeedEntry(each).encode() for each in sorted(sequences))
    made = replace(
        _NUMBER,
        sequence=max(sequences, default=0),
        entries=entries,
        ends=(b"\x80",) * len(entries),
        tombstones=tombstones,
        log=log,
    )
    assert JournalRecord.decode(made.encode()) == made
