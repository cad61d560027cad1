"""COSE_Sign1 messages: the bytes of RFC 9052, and nothing that only resembles them."""

import base64
from typing import Any

import cbor2
import pytest

from shared.authorizer.formats import ed25519, warrants
from shared.authorizer.formats.warrants import Message
from shared.model import seeds, warrant_format
from shared.model.warrant_format import signed_message
from tests.kit.reserved import RESERVED

SEED = bytes(range(32))
KEY = base64.b64decode(seeds.public_key(SEED))
PROTECTED = warrants.header(key_id=b"svc_key_a#1", content_type=61)
MESSAGE = signed_message(PROTECTED, b"payload", seed=SEED)


def tagged(*parts: Any, tag: int = 18) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(tag, list(parts)), canonical=True)


def test_a_message_of_the_cose_working_group() -> None:
    """F42: a published example, `eddsa-sig-01`, verifies, and is what our key would sign."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    example = bytes.fromhex(
        "d28445a201270300a10442313154546869732069732074686520636f6e74656e742e5840"
        "7142fd2ff96d56db85bee905a76ba1d0b7321a95c8c4d3607c5781932b7afb87"
        "11497dfa751bf40b58b3bcc32300b1487f3db34085eef013bf08f4a44d6fef0d"
    )
    protected, _, payload, signature = cbor2.loads(example).value
    assert payload == b"This is the content."
    public_key = base64.b64decode(seeds.public_key(seed))
    message = Message(protected, payload, signature)
    assert ed25519.is_signed(message.signed, signature, public_key=public_key)
    assert signed_message(protected, payload, seed=seed) == message


def test_a_message_comes_back() -> None:
    """What is signed is parsed to the same parts, and its header tells the key."""
    assert warrants.parse(MESSAGE.encode()) == MESSAGE
    assert warrants.key_id_of(MESSAGE.protected, content_type=61) == b"svc_key_a#1"
    assert ed25519.is_signed(MESSAGE.signed, MESSAGE.signature, public_key=KEY)


def test_the_header_is_that_of_a_cwt() -> None:
    """EdDSA, the content type of a CWT, the identifier of the key, in this encoding."""
    assert bytes.fromhex("a3 01 27 03 18 3d 04 4b") + b"svc_key_a#1" == PROTECTED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"warrant",
        MESSAGE.encode()[1:],
        MESSAGE.encode() + b"\x00",
        MESSAGE.encode()[:-1],
        b"\xd9\xd9\xf7" + MESSAGE.encode(),
        b"\xd2\x9f" + MESSAGE.encode()[2:] + b"\xff",
        tagged(PROTECTED, {}, b"payload", MESSAGE.signature, tag=17),
        tagged(PROTECTED, {4: b"other"}, b"payload", MESSAGE.signature),
        tagged(PROTECTED, {}, None, MESSAGE.signature),
        tagged(PROTECTED, {}, b"payload"),
        tagged(PROTECTED, {}, b"payload", MESSAGE.signature, b""),
        tagged({1: -8}, {}, b"payload", MESSAGE.signature),
        b"\x81" * 1000,
    ],
    ids=lambda data: data[:8].hex(),
)
def test_what_is_no_such_message(data: bytes) -> None:
    """F42: another tag, shape or encoding, unprotected headers, a detached payload: refused."""
    with pytest.raises(ValueError, match="expected"):
        warrants.parse(data)


@pytest.mark.parametrize(
    "protected",
    [
        b"",
        b"\xa0",
        b"\x80",
        cbor2.dumps({1: -8, 3: 61}),
        cbor2.dumps({1: -7, 3: 61, 4: b"k"}),
        cbor2.dumps({1: -8, 3: 60, 4: b"k"}),
        cbor2.dumps({1: -8, 3: 61, 4: "k"}),
        cbor2.dumps({1: -8, 3: 61, 4: b"k", 2: [15], 15: 1}),
        cbor2.dumps({4: b"k", 3: 61, 1: -8}),
    ],
    ids=lambda data: data.hex(),
)
def test_other_headers(protected: bytes) -> None:
    """F42: another algorithm or content type, no key, critical or unknown fields: refused."""
    with pytest.raises(ValueError, match="expected"):
        warrants.key_id_of(protected, content_type=61)


@pytest.mark.parametrize("payload", RESERVED, ids=lambda payload: payload[:12].hex())
def test_bytes_that_would_mean_something_else(payload: bytes) -> None:
    """F42: lists and messages of COSE, tagged or not, and what their signatures are over."""
    assert warrant_format.is_reserved(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"may pay up to 100",
        b'{"RevokedIDs": []}',
        b'{"warrant": "svc_wrt_a"}',
        bytes(range(256)),
        b"\xff" * 1000,
        b"\x81" * 64 * 1024,
        cbor2.dumps({"id": "svc_wrt_a", "Version": 1}),
        cbor2.dumps(["grant", b"a"]),
        cbor2.dumps([b"a", b"b"]),
        cbor2.dumps([1, {}, b"payload", b"signature"]),
        cbor2.dumps(cbor2.CBORTag(24_000, {"id": "svc_wrt_a"})),
        # Decoders that make big numbers of these would never end.
        bytes.fromhex("c5821a7fffffff01"),
        bytes.fromhex("c4821b7fffffffffffffff01"),
    ],
    ids=lambda payload: payload[:12].hex(),
)
def test_formats_of_the_callers_own(payload: bytes) -> None:
    """Text, JSON, CBOR and bytes of any other kind are the caller's to give a meaning."""
    assert not warrant_format.is_reserved(payload)
