"""The check of a list in the browser, with the vectors of the service's own check."""

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest

from shared.model import times
from shared.model.lists import content as srl
from shared.model.lists.content import Payload
from shared.model.times import CLOCK_TOLERANCE
from tests.model.lists import vectors
from tests.model.lists.vectors import HOUR, MEMBERS, NOW, PAYLOAD, SEED, changed, document

pytestmark = pytest.mark.slow

_CLIENT = Path(__file__).with_name("verify_client.mjs")
_SECOND = vectors.SECOND
# A page gets the list as its browser parsed it, so that these are the same as the right list: a
# member that is named twice, and 5.0 for 5.
_PARSED_AWAY = {"a duplicate member", "a duplicate member of payload", "a duplicate member of srl"}
# The page names one check where a verifier has two reasons.
_MALFORMED = {"form", "shown", "members"}

Case = dict[str, Any]


def _key(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _case(expected: str | set[str] | None, value: Any, **given: Any) -> Case:
    body = vectors.body(value)
    keys = [_key(vectors.public())]
    text = {"body": body.decode(errors="replace"), "keys": keys, "seen": None}
    return {**text, "now": times.format_utc(NOW), "expected": expected, **given}


def _forms() -> Iterator[Case]:
    for name, value in vectors.MALFORMED.items():
        if name not in _PARSED_AWAY and name not in {"UTF-16", "a byte order mark"}:
            yield _case(_MALFORMED, value)
    for spell in vectors.SPELLINGS.values():
        served = document()
        served["srl"]["Signature"] = spell(served["srl"]["Signature"])
        yield _case("form", served)


def _signatures() -> Iterator[Case]:
    yield _case("signature", document(seed=vectors.OTHER_SEED))
    yield _case("signature", document(), keys=[_key(vectors.public(vectors.OTHER_SEED))])
    yield _case("signature", document(), keys=[])
    older, newer = changed(Version=4), document()
    for part in ("Payload", "Signature"):
        mixed = newer["srl"] | {part: older["srl"][part]}
        yield _case("signature", {"payload": MEMBERS, "srl": mixed})
    for flipped in vectors.flips(base64.b64decode(newer["srl"]["Signature"])):
        altered = newer["srl"] | {"Signature": _key(flipped)}
        yield _case("signature", {"payload": MEMBERS, "srl": altered})


def _contents() -> Iterator[Case]:
    for encoded in vectors.ENCODINGS.values():
        # "deep nesting" has 100,000 levels; the decoder must not follow them.
        yield _case({"members", "form"}, document(encoded=encoded))
    for members in vectors.CONTENTS.values():
        encoded = cbor2.dumps(members, canonical=True)
        yield _case("members", document(MEMBERS, encoded=encoded))
    # A browser reads this as the second of March.
    yield _case("members", changed(IssuedAt="2026-02-30T12:00:00Z"))
    for flipped in vectors.flips(vectors.RIGHT):
        yield _case({"members", "shown"}, document(encoded=flipped))
    for name, shown in vectors.SHOWN.items():
        if name != "a fraction":
            yield _case("shown", document() | {"payload": shown})
    for ids in (["svc_wrt_b", "svc_wrt_a"], ["svc_wrt_a", "svc_wrt_a"], ["svc_wrt_a", "svc_wrt_B"]):
        yield _case("order", changed(RevokedIDs=ids))


def _times() -> Iterator[Case]:
    none = 0 * _SECOND
    for lifetime in (none, -_SECOND, -HOUR, vectors.WEEK + _SECOND):
        yield _case("times", vectors.moved(none, lifetime))
    yield _case("times", vectors.moved(CLOCK_TOLERANCE + _SECOND, HOUR))
    yield _case("expired", vectors.moved(-HOUR, none))
    for version in (vectors.VERSION_MAX + 1, 2**63, 2**64 - 1):
        yield _case("version", changed(Version=version))
    other = hashlib.sha256(b"another").hexdigest()
    yield _case("version", document(), seen={"version": 6, "sha256": other})
    yield _case("version", document(), seen={"version": 5, "sha256": other})


def _right() -> Iterator[Case]:
    yield _case(None, document())
    yield _case(
        None, document(), keys=[*map(_key, (vectors.public(vectors.OTHER_SEED), vectors.public()))]
    )
    yield _case(None, vectors.moved(CLOCK_TOLERANCE, HOUR))
    yield _case(None, vectors.moved(-HOUR, _SECOND))
    yield _case(None, vectors.moved(0 * _SECOND, vectors.WEEK))
    yield _case(None, changed(Version=vectors.VERSION_MAX))
    digest = hashlib.sha256(PAYLOAD.cbor).hexdigest()
    yield _case(None, document(), seen={"version": 5, "sha256": digest})
    yield _case(None, document(), seen={"version": 4, "sha256": "another"})
    for number in (0, 23, 24, 255, 256, 70_000):
        ids = [f"svc_wrt_{each:08}" for each in range(number)]
        payload = Payload(2**32 + number, NOW, NOW + HOUR, ids)
        yield _case(None, srl.sign(payload, seed=SEED))
    # The list of docs/spec/srl.md, as another implementation may have made it.
    yield _case(None, srl.sign(Payload(2, NOW, NOW + HOUR, ["svc_wrt_laptop-17"]), seed=SEED))


def _failed(cases: list[Case]) -> list[str | None]:
    """Which check failed of each, as the page's module says in Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    given = json.dumps([{**case, "expected": None} for case in cases])
    output = subprocess.check_output([node, str(_CLIENT)], input=given, text=True)
    results: list[str | None] = json.loads(output)
    return results


def test_the_page_verifies_what_verifiers_do() -> None:
    """VERIFY-1, F467a: The console accepts a list only if a verifier with those keys does.

    The vectors are those of the service's own check: other signers, altered and mixed lists, other
    encodings, each bit of what is signed and of the signature flipped, times and versions.
    """
    makers = (_forms, _signatures, _contents, _times, _right)
    cases = [case for make in makers for case in make()]
    wrong = []
    for case, failed in zip(cases, _failed(cases), strict=True):
        expected = case["expected"]
        allowed = expected if isinstance(expected, set) else {expected}
        if failed not in allowed:
            wrong.append(f"{failed} and not {expected}: {case['body'][:300]} {case['keys']}")
    assert not wrong, "\n".join(wrong[:10])
    assert len(cases) > 1000
