"""Statements about signers, and the keys that a verifier reaches by them."""

import base64
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import cbor2
import pytest

from shared.model import seeds
from shared.model.lists import content as srl
from shared.model.lists.content import Payload
from shared.model.lists.signers import Form, SuccessionStatement, follow

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SEEDS = [bytes([number]) * 32 for number in range(1, 6)]


def public(seed: bytes) -> bytes:
    return base64.b64decode(seeds.public_key(seed))


def statement(signer: int, /, **changes: Any) -> SuccessionStatement:
    """What the signer before says of this one."""
    made = SuccessionStatement(
        tenant_id="svc_tnt_a",
        number=signer,
        key_id=f"svc_key_{signer}",
        public_key=public(SEEDS[signer - 1]),
        previous=public(SEEDS[signer - 2]),
        issued_at=NOW,
    )
    return replace(made, **changes)


def form(signer: int, /, **changes: Any) -> Form:
    return statement(signer, **changes).sign(seed=SEEDS[signer - 2])


def reached(pinned: list[int], forms: list[Form], *, revoked: tuple[int, ...] = ()) -> list[int]:
    """The numbers of the signers that are believed."""
    gone = frozenset(public(SEEDS[number - 1]) for number in revoked)
    found = follow([public(SEEDS[number - 1]) for number in pinned], forms, revoked_keys=gone)
    return [number for number, seed in enumerate(SEEDS, 1) if public(seed) in found]


def test_a_chain_is_followed_in_whatever_order_it_comes() -> None:
    """From the pinned key on, not back."""
    forms = [form(4), form(2), form(3)]
    assert reached([1], forms) == [1, 2, 3, 4]
    assert reached([3], forms) == [3, 4]
    assert reached([5], forms) == [5]
    chain = follow([public(SEEDS[0])], forms)[public(SEEDS[2])]
    assert chain == [form(2), form(3)]


def test_a_revoked_key_leads_nowhere() -> None:
    """F63: neither it nor what it said is believed; a pin on another key still is."""
    forms = [form(2), form(3)]
    assert reached([1], forms, revoked=(2,)) == [1]
    assert reached([1, 3], forms, revoked=(2,)) == [1, 3]
    assert reached([1], forms, revoked=(1,)) == []


@pytest.mark.parametrize(
    "other",
    [
        form(3, tenant_id="svc_tnt_b"),
        form(3, number=2),
        form(3, number=1),
        form(3, previous=public(SEEDS[0])),
        form(3, previous=public(SEEDS[4])),
        form(3, public_key=(1).to_bytes(32, "little")),
        form(3, public_key=b"short"),
        form(3, number=0),
        {},
        {"Payload": "", "Signature": ""},
        {"Payload": "?", "Signature": "?"},
        {"Payload": 1, "Signature": None},
        {"Payload": form(3)["Payload"], "Signature": form(2)["Signature"]},
    ],
    ids=str,
)
def test_what_is_no_true_statement_is_passed_over(other: Form) -> None:
    """VERIFY-4, F63a: A verifier ignores a forged, altered or foreign statement about a signer."""
    assert reached([1], [form(2), other]) == [1, 2]


def test_no_byte_of_a_statement_may_be_altered() -> None:
    """F63, S5: A verifier refuses a statement about a list signer with any byte altered."""
    good = form(2)
    for name in ("Payload", "Signature"):
        raw = base64.b64decode(good[name])
        for place in range(len(raw) * 2):
            flipped = bytearray(raw)
            flipped[place // 2] ^= (1, 128)[place % 2]
            altered = dict(good) | {name: base64.b64encode(flipped).decode()}
            assert reached([1], [altered]) == [1]


def _signed(encoded: bytes) -> Form:
    signature = seeds.sign(b"rescind-srl-signer-v1\n" + encoded, seed=SEEDS[0])
    return {"Payload": base64.b64encode(encoded).decode(), "Signature": signature}


def test_another_encoding_is_no_statement() -> None:
    """Another order, another member, one too few, or no map at all."""
    members = cbor2.loads(statement(2).encode())
    assert reached([1], [_signed(cbor2.dumps(members, canonical=True))]) == [1, 2]
    without = {name: value for name, value in members.items() if name != "Number"}
    others: list[Any] = [dict(reversed(members.items())), members | {"More": 1}, without, []]
    for encoded in (*map(cbor2.dumps, others), b"\xff", b""):
        assert reached([1], [_signed(encoded)]) == [1]


def test_a_list_is_no_statement_and_a_statement_no_list() -> None:
    """A signature over the one does not verify for the other."""
    body = srl.sign(Payload(1, NOW, NOW, []), seed=SEEDS[0])
    signature = seeds.sign(statement(2).encode(), seed=SEEDS[0])
    assert reached([1], [dict(form(2)) | {"Signature": signature}]) == [1]
    encoded = Payload(1, NOW, NOW, []).cbor
    assert encoded[0] == 0xA4
    assert base64.b64encode(encoded) in body
