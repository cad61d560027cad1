"""AWS KMS keys: one wraps seeds, one signs trust documents. Keys never leave KMS.

The root key has the key spec `ECC_NIST_EDWARDS25519`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from shared.adapters import verified
from shared.adapters.aws import clients
from shared.adapters.aws.clients import Lazy, reject_truncated_responses, translating_errors
from shared.adapters.preconditions import check_context, check_secret, check_signed
from shared.errors import DataCorrupt, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

_MOST_SEALED_BYTES = 6144
_NOT_OURS = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> KMSClient:
    """Return a client. Both arguments default to the AWS settings of the process."""
    client: KMSClient = clients.connect("kms", region=region, endpoint_url=endpoint_url)
    return client


class _KmsKey:
    """The KMS key `key_id`: an identifier, ARN or alias."""

    def __init__(self, connect: Callable[[], KMSClient], *, key_id: str) -> None:
        self._client: Lazy[KMSClient] = Lazy(lambda: reject_truncated_responses(connect()))
        self._key_id = key_id


class KmsSealer(_KmsKey):
    """A `KeyWrapper`."""

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Wrap 1 to 4096 bytes, bound to `context`. Raises `Unavailable`."""
        check_secret(secret, context)
        with translating_errors():
            answer = self._client().encrypt(
                KeyId=self._key_id, Plaintext=secret, EncryptionContext=context
            )
        return answer["CiphertextBlob"]

    def unseal(self, ciphertext: bytes, *, context: Mapping[str, str]) -> bytes:
        """Unwrap a secret. Raises `DataCorrupt`, `Unavailable`."""
        check_context(context)
        if not 0 < len(ciphertext) <= _MOST_SEALED_BYTES:
            raise DataCorrupt  # KMS would reject the request
        with translating_errors():
            try:
                answer = self._client().decrypt(
                    KeyId=self._key_id, CiphertextBlob=ciphertext, EncryptionContext=context
                )
            except ClientError as error:
                if clients.code_of(error) in _NOT_OURS:
                    raise DataCorrupt from error
                raise
        return answer["Plaintext"]


class KmsRoot(_KmsKey):
    """A `RootSigner`."""

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
                "The root key in KMS is not an Ed25519 key. Create a key with the spec "
                "ECC_NIST_EDWARDS25519."
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
