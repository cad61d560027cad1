"""docs/spec/trust.md says what the code does: its CDDL, its limits, and bytes that Node made."""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import cbor2
import pytest

from shared.authorizer.formats import documents, following, proofs, trust, wire
from shared.authorizer.formats.documents import RootReason
from shared.authorizer.formats.ed25519 import is_signed
from shared.authorizer.formats.journal import JournalRecord
from shared.authorizer.formats.members import MalformedBytes
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from shared.authorizer.formats.signing_keys import Certificate, PublishedKey, PublishedKeys
from shared.authorizer.formats.trust import KeyUse, LogAnchor, TrustDocument, Witnesses
from tests.authorizer.feeds import ENTRY, NOW, TENANT
from tests.authorizer.roots import DAY, document, public_of, roots, signed
from tests.kit.peers import is_of_type
from tests.kit.processes import ROOT, environment

_PAGE: Final = (ROOT / "docs/spec/trust.md").read_text(encoding="utf-8")
_FEED: Final = (ROOT / "docs/spec/feed.md").read_text(encoding="utf-8")
_SEED: Final = 7

_READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "trust": TrustDocument.decode,
    "signing-keys": PublishedKeys.decode,
    "registration": SignedRegistration.decode,
    "report": SignedReport.decode,
    "journal": JournalRecord.decode,
}
_SIGNED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "trust": documents.signed_part,
    "registration": SignedRegistration.signed_part,
    "report": SignedReport.signed_part,
    "journal": JournalRecord.signed_part,
}

_LOG: Final = LogAnchor(f"rescind/{TENANT}/1", 12345, b"r" * 32)
_KEY: Final = PublishedKey("svc_key_a", 1, "root", "active", public_of(1), NOW)
_ENDED: Final = _KEY._replace(
    key_id="svc_key_b",
    parent_id="svc_key_a",
    expires_at=NOW + DAY,
    rotated_at=NOW + 2 * DAY,
    suspended_at=NOW + 3 * DAY,
    revoked_at=NOW + 4 * DAY,
    certificate=Certificate("svc_key_a#1", b"s" * 64),
)
_REPORT: Final = SignedReport(
    tenant_id=TENANT,
    authorizer_id="svc_aut_a",
    number=1_795_262_400_000,
    trust=42,
    sequence=None,
    chain=b"",
    verified_at=None,
    max_staleness=None,
    fail_open=False,
)
_HOLDING: Final = replace(
    _REPORT,
    sequence=2**53,
    chain=b"c" * 32,
    verified_at=NOW,
    max_staleness=30,
    fail_open=True,
    refused={"rollback": 1, "ä": 300},
)
_NUMBER: Final = JournalRecord(
    tenant_id=TENANT,
    number=1,
    previous=bytes(32),
    issued_at=NOW,
)

# Of each format the least and the most that it may have.
_SAMPLES: Final[dict[str, bytes]] = {
    "trust/least": document(roots=roots(1, 2, threshold=2), signers=()).encode(),
    "trust/most": document(
        2**53, log=_LOG, witnesses=Witnesses(("a", "b"), 0), signing_keys=b"k" * 32
    ).encode(),
    "signing-keys/least": PublishedKeys(TENANT, ()).encode(),
    "signing-keys/most": PublishedKeys(TENANT, (_KEY, _ENDED)).encode(),
    "registration": SignedRegistration(TENANT, "gate ü", public_of(3), NOW).encode(),
    "report/least": _REPORT.encode(),
    "report/most": _HOLDING.encode(),
    "journal/least": _NUMBER.encode(),
    "journal/most": replace(
        _NUMBER,
        sequence=2**53,
        entries=(ENTRY.encode(),),
        ends=(b"\x80",),
        tombstones={"Changes": 3},
        trust=42,
        log=_LOG,
    ).encode(),
}


def _kind(name: str) -> str:
    return name.partition("/")[0]


def test_the_page_names_each_reason_in_the_order_of_the_checks() -> None:
    """TRUST-12, TRUST-13, F672a: The page has each reason at its check, in the order of the code.

    Those of documents stand in one order, and those of heads in the other.
    """
    sections = re.split(r"^### (TRUST-\d+)$", _PAGE, flags=re.MULTILINE)
    said = {
        clause: re.findall(r"\(`(\w+)`\)", text)
        for clause, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    assert {each for found in said.values() for each in found} == {*RootReason}
    assert said["TRUST-12"] == [
        *("too_large", "malformed", "tenant", "root", "root", "root", "equivocation", "root"),
        *("rollback", "lifetime", "future"),
    ]
    assert said["TRUST-13"] == [
        *("signature", "malformed", "trust_expired", "behind", "equivocation")
    ]


def test_the_page_states_the_limits_of_the_code() -> None:
    """TRUST-6, TRUST-8, F672b: Each limit of the code is on the page."""
    numbers = {int(each) for each in re.findall(r"\b\d+\b", _PAGE.replace(",", ""))}
    assert numbers >= {
        *(trust.ROOTS_MAX, trust.SIGNERS_MAX, wire.NUMBER_MAX),
        *(documents.DOCUMENT_BYTES_MAX, documents.DOCUMENTS_MAX, documents.SIGNATURES_MAX),
        *(documents.ANSWER_BYTES_MAX // 2**20, proofs.PROOF_BYTES_MAX),
        *(following.LIFETIME_MAX.days, wire.FUTURE_MAX.seconds, proofs.AGE_MAX.seconds // 60),
    }
    assert {f"`{each}`" for each in KeyUse} <= {*re.findall(r"`\w+`", _PAGE)}
    prefixes = ["roots", "trust", "register", "report", "journal", "key", "keys"]
    assert all(f"`rescind-{each}-v1\\n`" in _PAGE for each in prefixes)


@pytest.mark.parametrize("name", _SAMPLES)
def test_each_format_is_read_strictly(name: str) -> None:
    """TRUST-6, F662a: No beginning of a payload is read, and none that goes on or repeats a member.

    A thousand lists in each other are refused too, in a member that is not known.
    """
    read, payload = _READERS[_kind(name)], _SAMPLES[name]
    members = cbor2.loads(payload)
    one = next(iter(members))
    count = len(members) + 1
    nested = cbor2.dumps(members | {"Z" * 20: 0}, canonical=True)[:-1] + b"\x81" * 999 + b"\x80"
    twice = bytes([0xA0 + count]) + cbor2.dumps({one: members[one]}, canonical=True)[1:]
    for other in (
        *(payload[:size] for size in range(len(payload))),
        *(payload + b"\0", twice + payload[1:], nested, b"\xbf" + payload[1:] + b"\xff"),
    ):
        with pytest.raises(MalformedBytes):
            read(other)


# --- bytes that were made in Node ---


def _plain(value: Any) -> Any:
    """A value for JSON."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case bytes():
            return {"bytes": value.hex()}
    return value


@pytest.fixture(scope="module")
def by_node() -> dict[str, Any]:
    """What an encoder in Node makes of the samples, and says of signatures that Python made."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    forms = [signed(document(roots=roots(1, 2)), *by).form() for by in ((1, 2), (2, 9), (9,))]
    keys = [base64.b64encode(each).decode() for each in map(public_of, (1, 2))]
    request = {
        "seed": (bytes([_SEED]) * 32).hex(),
        "payloads": {name: _plain(cbor2.loads(data)) for name, data in _SAMPLES.items()},
        "roots": _plain(roots(1, 2, threshold=2).members()),
        "documents": [form | {"roots": keys} for form in forms],
    }
    ran = subprocess.run(
        [node, ROOT / "tests/tools/trust.mjs"],
        input=json.dumps(request),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_node_makes_the_same_bytes(by_node: dict[str, Any]) -> None:
    """TRUST-6, F672c: An encoder in Node, written from the page, makes the same bytes as ours."""
    made = {name: bytes.fromhex(each["payload"]) for name, each in by_node["made"].items()}
    assert made == _SAMPLES
    for name, payload in made.items():
        found = _READERS[_kind(name)](payload)
        assert found.encode() == payload


def test_signatures_and_pin_are_the_same_in_node(by_node: dict[str, Any]) -> None:
    """TRUST-7, TRUST-8, F672d: Each verifies what the other signed, and both have the same pin."""
    assert by_node["pin"] == roots(1, 2, threshold=2).pin
    assert by_node["verified"] == [2, 1, 0]
    for name, each in by_node["made"].items():
        if _kind(name) in _SIGNED:
            covered = _SIGNED[_kind(name)](bytes.fromhex(each["payload"]))
            signature = bytes.fromhex(each["signature"])
            assert is_signed(covered, signature, public_key=public_of(_SEED))
            assert not is_signed(covered + b"\0", signature, public_key=public_of(_SEED))


# --- the grammar ---

Item = tuple[str, bytes]

_OTHERS: Final[list[Any]] = [
    *(None, -1, 2**53 + 1, 1.5, True, "text", b"bytes", [], {}, [1], b"c" * 31, ["x" * 3, 1]),
]


def _is_read(item: Item) -> bool:
    try:
        _READERS[item[0]](item[1])
    except MalformedBytes:
        return False
    return True


# The checker takes an optional member at the end of a map for an unknown one if it has another
# type, although RFC 8610 cuts there (3.5.4).
_LAST: Final = {
    *("Certificate", "RevokedAt", "RotatedAt", "SuspendedAt"),
    *("SigningKeys", "Witnesses"),
}

# The grammar has no order, nor that a chain belongs to a sequence, and an end to each entry.
_ASIDE: Final = {("Sequence", "None"), ("Id", "text"), ("Ends", "[]"), ("Entries", "[]")}


def _places(members: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of the maps in a payload: the map that has it, and the name of the member."""
    match members:
        case dict():
            for name, value in [*members.items()]:
                if name not in _LAST | {"Tombstones"}:
                    yield members, name
                    yield from _places(value)
        case list():
            for each in members:
                yield from _places(each)


def _altered() -> Iterator[Item]:
    """The samples with each member left out, of another type or size, or with one more."""
    for name, data in _SAMPLES.items():
        members = cbor2.loads(data)
        for place, member in [*_places(members)]:
            before = place.pop(member)
            yield _kind(name), cbor2.dumps(members, canonical=True)
            for other in _OTHERS:
                place[member] = other
                if (member, str(other)) not in _ASIDE:
                    yield _kind(name), cbor2.dumps(members, canonical=True)
            place[member] = before
            # The checker wants members that it does not know at the end.
            place["of a later release, which is long"] = 1
            yield _kind(name), cbor2.dumps(members, canonical=True)
            del place["of a later release, which is long"]


def _valid(items: list[Item]) -> list[bool]:
    """What a checker of CDDL says of each item, by the grammar of the two pages."""
    blocks = re.findall(r"^```cddl\n(.*?)^```", _PAGE + _FEED, re.MULTILINE | re.DOTALL)
    return is_of_type("".join(blocks), items)


@pytest.mark.slow
def test_the_grammar_of_the_page_is_that_of_the_codec(by_node: dict[str, Any]) -> None:
    """TRUST-6, F672e: The CDDL on the page admits what ours and Node's encoder make.

    It refuses what the codec refuses.
    """
    whole = [(_kind(name), data) for name, data in _SAMPLES.items()]
    whole += [
        (_kind(name), bytes.fromhex(each["payload"])) for name, each in by_node["made"].items()
    ]
    assert [item for item, valid in zip(whole, _valid(whole), strict=True) if not valid] == []
    altered = [*_altered()]
    read = [_is_read(each) for each in altered]
    assert 50 < read.count(True) < read.count(False)
    differ = [
        (item[0], valid, cbor2.loads(item[1]))
        for item, valid, is_read in zip(altered, _valid(altered), read, strict=True)
        if valid != is_read
    ]
    assert differ == []
