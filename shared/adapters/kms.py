"""Seals made with a key of AWS KMS, which never leaves KMS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from shared.adapters import aws
from shared.adapters.aws import Lazy, code_of, reject_truncated_responses, translating_errors
from shared.adapters.preconditions import check_context, check_secret
from shared.errors import Corrupt

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

_MOST_SEALED_BYTES = 6144
_NOT_OURS = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> KMSClient:
    """Return a client. Both arguments default to the AWS settings of the process."""
    client: KMSClient = aws.connect("kms", region=region, endpoint_url=endpoint_url)
    return client


class KmsSealer:
    """A `Sealer` with the KMS key `key_id`: an identifier, ARN or alias."""

    def __init__(self, connect: Callable[[], KMSClient], *, key_id: str) -> None:
        self._client: Lazy[KMSClient] = Lazy(lambda: reject_truncated_responses(connect()))
        self._key_id = key_id

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Seal 1 to 4096 bytes, bound to `context`. Raises `Unavailable`."""
        check_secret(secret, context)
        with translating_errors():
            answer = self._client().encrypt(
                KeyId=self._key_id, Plaintext=secret, EncryptionContext=context
            )
        return answer["CiphertextBlob"]

    def unseal(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        """Return the secret in a seal. Raises `Corrupt`, `Unavailable`."""
        check_context(context)
        if not 0 < len(sealed) <= _MOST_SEALED_BYTES:
            raise Corrupt  # KMS would reject the request
        with translating_errors():
            try:
                answer = self._client().decrypt(
                    KeyId=self._key_id, CiphertextBlob=sealed, EncryptionContext=context
                )
            except ClientError as error:
                if code_of(error) in _NOT_OURS:
                    raise Corrupt from error
                raise
        return answer["Plaintext"]
