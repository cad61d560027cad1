"""A KMS that signs with a key of Ed25519, in front of moto's, which does not know such keys."""

import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.adapters.aws import clients

ROOT: Final = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)


class _Stream(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


@contextmanager
def signing() -> Iterator[None]:
    """Let the clients of KMS that are made inside sign with `ROOT`, whatever key they name."""
    session = clients._session()
    answers: dict[str, Any] = {"GetPublicKey": _public_key, "Sign": _signature}
    for operation, answer in answers.items():
        session.register(f"before-send.kms.{operation}", answer)
    try:
        yield
    finally:
        for operation, answer in answers.items():
            session.unregister(f"before-send.kms.{operation}", answer)


def _public_key(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    der = ROOT.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return _answer(request, {"PublicKey": base64.b64encode(der).decode()})


def _signature(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    body: Any = request.body
    asked = json.loads(body)
    assert (asked["MessageType"], asked["SigningAlgorithm"]) == ("RAW", "ED25519_SHA_512")
    signature = ROOT.sign(base64.b64decode(asked["Message"]))
    return _answer(request, {"Signature": base64.b64encode(signature).decode()})


def _answer(request: AWSPreparedRequest, body: dict[str, str]) -> AWSResponse:
    raw: Any = _Stream(json.dumps(body).encode())
    headers: Any = {}
    return AWSResponse(request.url, 200, headers, raw)
