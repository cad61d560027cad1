"""docs/spec/srl.md, which verifiers are written from, says what the code does."""

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from functions.srl import schemas
from shared.errors import InvalidSrl, SrlReason
from shared.model import identifiers, seeds, times
from shared.model.lists import verification
from shared.model.lists.signers import SuccessionStatement
from shared.model.lists.verification import LIFETIME_MAX, VERSION_MAX, verify
from tests.kit.peers import is_of_type
from tests.kit.processes import ROOT

_PAGE = (ROOT / "docs" / "spec" / "srl.md").read_text(encoding="utf-8")
_SEED = bytes(range(32))
_NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def _section(title: str) -> str:
    return _PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_lists_each_refusal() -> None:
    """VERIFY-1, F207a: The page on lists has a row and a check for each refusal, in their order."""
    section = _section("Checks, in this order")
    names = [each.value for each in SrlReason]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == names
    checks = section.split("| Refusal |")[0].partition("\n1. ")[2]
    assert re.findall(r"\(`(\w+)`\)", checks) == names


def test_the_page_states_the_limits_of_the_code() -> None:
    """F207b: The limits on the page on lists are those that the code has."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", _section("Limits"), re.MULTILINE))
    assert rows["lifetime of an SRL"] == f"{LIFETIME_MAX.days} days"
    assert rows["`IssuedAt` after now"] == f"{times.CLOCK_TOLERANCE.seconds // 60} minutes"
    assert rows["version"] == str(VERSION_MAX)
    assert rows["step from one SRL to the next"] == f"{verification.MAX_STEP:,}"
    longest = f"svc_wrt_{'a' * 64}"
    assert identifiers.warrant_id(longest)
    assert rows["an identifier"] == f"{len(longest)} characters, all ASCII"
    with pytest.raises(ValueError, match="svc_wrt_"):
        identifiers.warrant_id(f"{longest}a")


def test_the_example_of_the_page_verifies() -> None:
    """F207c: The bytes that the page shows are a list, and the signature of the key shown."""
    shown = re.findall(r"^[0-9a-f]{100,}$", _section("Format"), re.MULTILINE)
    signed, signature = map(bytes.fromhex, shown)
    key = base64.b64decode(re.findall(r"`([\w+/]{43}=)`", _section("Format"))[0])
    Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    (answer,) = (json.loads(each) for each in _blocks("json"))
    assert cbor2.loads(signed) == answer["payload"] == schemas.PAYLOAD
    texts = {"Payload": base64.b64encode(signed), "Signature": base64.b64encode(signature)}
    for name, text in texts.items():
        assert text.decode().startswith(answer["srl"][name].rstrip("…"))


# --- the grammar ---


def _is_list(encoded: bytes) -> bool:
    """Whether the code reads these signed bytes as a list, whatever it makes of its content."""
    shown = {"Payload": base64.b64encode(encoded).decode(), "Signature": ""}
    shown["Signature"] = seeds.sign(encoded, seed=_SEED)
    body = json.dumps({"payload": None, "srl": shown}).encode()
    with pytest.raises(InvalidSrl) as caught:
        verify(body, public_key=base64.b64decode(seeds.public_key(_SEED)), now=_NOW)
    return caught.value.reason is SrlReason.MIXED


def _is_statement(encoded: bytes) -> bool:
    try:
        SuccessionStatement._decode(encoded)
    except ValueError:
        return False
    return True


@pytest.mark.slow
def test_the_grammar_of_the_page_is_that_of_the_code() -> None:
    """F207d: The CDDL on the page on lists admits what the code reads, and nothing else."""
    listed = cbor2.loads(base64.b64decode(str(schemas.SIGNED["Payload"])))
    statement = cbor2.loads(base64.b64decode(str(schemas.STATEMENT["Payload"])))
    others: list[Any] = [None, 0, -1, 1, 1.0, True, "text", b"bytes", [], {}, [1], b"c" * 31]
    items: list[tuple[str, bytes]] = []
    for name, members in (("list", listed), ("statement", statement)):
        changed = [members, members | {"Note": 1}]
        for member in members:
            changed.append({key: each for key, each in members.items() if key != member})
            changed += [members | {member: each} for each in others]
        items += [(name, cbor2.dumps(each, canonical=True)) for each in changed]
    read = {"list": _is_list, "statement": _is_statement}
    valid = is_of_type("".join(_blocks("cddl")), items)
    assert valid.count(True) > 4
    differ = [
        (name, is_valid, cbor2.loads(each))
        for (name, each), is_valid in zip(items, valid, strict=True)
        if is_valid != read[name](each)
    ]
    assert differ == []
