"""A root key in AWS KMS: of the specification `ECC_NIST_EDWARDS25519`. It never leaves KMS."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from shared.adapters import verified
from shared.adapters.aws import Lazy, reject_truncated_responses, translating_errors
from shared.adapters.preconditions import check_signed
from shared.errors import Unavailable

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient


class KmsRoot:
    """A `RootSigner` with the KMS key `key_id`: an identifier, ARN or alias."""

    def __init__(self, connect: Callable[[], KMSClient], *, key_id: str) -> None:
        self._client: Lazy[KMSClient] = Lazy(lambda: reject_truncated_responses(connect()))
        self._key_id = key_id

    @cached_property
    def public_key(self) -> bytes:
        """The public key (32 bytes). Raises `Unavailable`."""
        with translating_errors():
            encoded = self._client().get_public_key(KeyId=self._key_id)["PublicKey"]
        try:
            key = load_der_public_key(encoded)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise Unavailable(
                "The root key in KMS is not of Ed25519. Make one of ECC_NIST_EDWARDS25519."
            )
        return verified.public_key(key.public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes. Raises `Unavailable`."""
        check_signed(data)
        public_key = self.public_key
        with translating_errors():
            answer = self._client().sign(
                KeyId=self._key_id,
                Message=data,
                MessageType="RAW",
                SigningAlgorithm="ED25519_SHA_512",
            )
        return verified.signature(data, answer["Signature"], public_key=public_key)
