"""Lists that verifiers accept or refuse: other encodings, altered members, moved times."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.model.lists import content as srl
from shared.model.lists.content import Payload

SEED, OTHER_SEED = b"\x01" * 32, b"\x02" * 32
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
PAYLOAD = Payload(5, NOW, NOW + HOUR, ["svc_wrt_a", "svc_wrt_b"])
MEMBERS = PAYLOAD.members()
ISSUED = MEMBERS["IssuedAt"].encode()
RIGHT = PAYLOAD.cbor
VERSION_MAX = 10**12 - 1


def public(seed: bytes = SEED) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def document(members: Any = MEMBERS, *, seed: bytes = SEED, encoded: bytes | None = None) -> Any:
    """A list as it is served, rightly signed, whatever it says."""
    encoded = cbor2.dumps(members, canonical=True) if encoded is None else encoded
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(encoded)
    signed = {"Payload": base64.b64encode(encoded).decode(),
              "Signature": base64.b64encode(signature).decode()}  # fmt: skip
    return {"payload": members, "srl": signed}


def body(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def changed(**members: Any) -> Any:
    """A rightly signed list with other members."""
    return document(MEMBERS | members)


VALID = json.dumps(document())
MALFORMED: dict[str, Any] = {
    "nothing": b"",
    "no JSON": b"<html>",
    "UTF-16": VALID.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + VALID.encode(),
    "trailing bytes": VALID.encode() + b"x",
    "a duplicate member": VALID.replace('{"payload"', '{"payload": 1, "payload"', 1).encode(),
    "deep nesting": b"[" * 100_000,
    "an array": [document()],
    "text": "payload",
    "null": None,
    "no srl": {"payload": MEMBERS},
    "no payload": {"srl": document()["srl"]},
    "a member more": document() | {"more": 1},
    "srl is text": document() | {"srl": "x"},
    "a duplicate member of payload": VALID.replace(
        '"Version"', '"Version": 5, "Version"', 1
    ).encode(),
    "a duplicate member of srl": VALID.replace('"Payload"', '"Payload": "", "Payload"', 1).encode(),
    "an absurd version": changed(Version=2**64),
    "no Signature": document() | {"srl": {"Payload": "AA=="}},
    "a member of srl more": document() | {"srl": document()["srl"] | {"more": 1}},
    "Payload is a number": document() | {"srl": {"Payload": 1, "Signature": "AA=="}},
    "Payload is null": document() | {"srl": {"Payload": None, "Signature": "AA=="}},
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "no padding": lambda text: text.rstrip("="),
    "more padding": lambda text: text + "=",
    "white space": lambda text: text + "\n",
    "white space within": lambda text: text[:4] + " " + text[4:],
    "the other alphabet": lambda text: text.replace("/", "_").replace("+", "-") + "-",
    "beside the alphabet": lambda text: "é" + text[1:],
    "spare bits": lambda text: text[:-3] + chr(ord(text[-3]) + 1) + "==",
}


def flips(data: bytes) -> Iterator[bytes]:
    """`data` with one bit flipped, for each of its bits."""
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        yield bytes(flipped)


ENCODINGS: dict[str, bytes] = {
    "nothing": b"",
    "no CBOR": b"\xff",
    "cut": RIGHT[:-1],
    "trailing bytes": RIGHT + b"\x00",
    "another order of keys": cbor2.dumps(dict(reversed(MEMBERS.items()))),
    "a duplicate key": b"\xa2\x61a\x01\x61a\x01",
    "a duplicate Version": b"\xa5" + RIGHT[1:] + b"\x67Version\x06",
    "a long integer for a short one": RIGHT.replace(b"Version\x05", b"Version\x18\x05"),
    "the longest integer": RIGHT.replace(b"\x05\x68", b"\x1b" + bytes(7) + b"\x05\x68"),
    "a big number for a short one": RIGHT.replace(b"Version\x05", b"Version\xc2\x41\x05"),
    "a double for a short float": RIGHT.replace(b"Version\x05", b"Version\xfb\x40\x14" + bytes(6)),
    "a long length of a map": b"\xb8\x04" + RIGHT[1:],
    "a long length of an array": RIGHT.replace(b"IDs\x82", b"IDs\x98\x02"),
    "a long length of a text": RIGHT.replace(b"\x67Version", b"\x78\x07Version"),
    "an indefinite length": b"\xbf" + RIGHT[1:] + b"\xff",
    "an indefinite length of an array": RIGHT.replace(b"IDs\x82", b"IDs\x9f") + b"\xff",
    "an indefinite length of a text": RIGHT.replace(b"\x67Version", b"\x7f\x67Version\xff"),
    "a time since the epoch": RIGHT.replace(b"At\x74" + ISSUED, b"At\xc1\x1a\x6a\xc0\x93\xc0"),
    "a tag of CBOR itself": b"\xd9\xd9\xf7" + RIGHT,
    "broken UTF-8": b"\x61\xff",
    "deep nesting": b"\x81" * 100_000 + b"\x01",
    "an enormous length": b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
    "a shared reference": b"\xd8\x1d\x00",
}  # fmt: skip
CONTENTS: dict[str, Any] = {
    "an array": [1],
    "text": "Version",
    "a number": 1,
    "an array for a name": {(): 1},
    "no member": {},
    "a member less": {name: value for name, value in MEMBERS.items() if name != "ExpiresAt"},
    "a member more": MEMBERS | {"More": 1},
    "another case": {name.lower(): value for name, value in MEMBERS.items()},
    **{f"Version {value!r}": MEMBERS | {"Version": value}
       for value in (0, -1, True, 1.0, "1", None, [1])},
    **{f"{name} tagged": MEMBERS | {name: cbor2.CBORTag(0, MEMBERS[name])}
       for name in ("IssuedAt", "ExpiresAt")},
    "Version tagged": MEMBERS | {"Version": cbor2.CBORTag(1000, 5)},
    "RevokedIDs a set": MEMBERS | {"RevokedIDs": {"svc_wrt_a", "svc_wrt_b"}},
    **{f"IssuedAt {value!r}": MEMBERS | {"IssuedAt": value}
       for value in (None, 1, "", "2026-11-21", "2026-11-21T12:00:00+00:00",
                     "2026-11-21T12:00:00.0Z", NOW,
                     "2026-11-21t12:00:00z", "2026-11-21 12:00:00Z", "2026-13-21T12:00:00Z")},
    **{f"ExpiresAt {value!r}": MEMBERS | {"ExpiresAt": value}
       for value in (None, 1, "", "2026-11-21T14:00:00+01:00")},
    **{f"RevokedIDs {value!r}": MEMBERS | {"RevokedIDs": value}
       for value in (None, "svc_wrt_a", {"svc_wrt_a": 1}, [1], [None], ["a"], ["svc_rev_a"],
                     [["svc_wrt_a"]], ["svc_wrt_a", "svc_wrt_"], ["svc_wrt_a\n"])},
}  # fmt: skip
SHOWN: dict[str, Any] = {
    "an older version": MEMBERS | {"Version": 4},
    "true for 1": MEMBERS | {"Version": True},
    "a fraction": MEMBERS | {"Version": 5.0},
    "text": MEMBERS | {"Version": "5"},
    "other times": MEMBERS | {"ExpiresAt": "2027-11-21T13:00:00Z"},
    "an identifier less": MEMBERS | {"RevokedIDs": ["svc_wrt_a"]},
    "an identifier more": MEMBERS | {"RevokedIDs": ["svc_wrt_a", "svc_wrt_b", "svc_wrt_c"]},
    "another order": MEMBERS | {"RevokedIDs": ["svc_wrt_b", "svc_wrt_a"]},
    "a member more": MEMBERS | {"More": 1},
    "no member": {},
    "null": None,
    "an array": [MEMBERS],
}


def moved(issued: timedelta, expires: timedelta) -> bytes:
    """A right list of these times, counted from now."""
    return srl.sign(Payload(5, NOW + issued, NOW + expires, []), seed=SEED)


SECOND = timedelta(seconds=1)
WEEK = timedelta(days=7)
