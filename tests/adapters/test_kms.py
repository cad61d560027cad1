"""Seals under KMS, where KMS fails."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from shared.adapters.aws.kms import KmsSealer
from shared.errors import DataCorrupt, Unavailable
from tests.adapters.answers import Answer, Answers, error
from tests.adapters.kms_outages import OUTAGES

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

CONTEXT = {"tenant": "t1", "key": "svc_key_1"}


@pytest.fixture
def keys(kms_client: KMSClient) -> KmsSealer:
    return KmsSealer(lambda: kms_client, key_id="alias/a-key")


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_is_unavailable(kms_client: KMSClient, keys: KmsSealer, name: str) -> None:
    """F26: a key that cannot be used now says nothing about the seal."""
    Answers(kms_client, OUTAGES[name])
    for call in (keys.seal, keys.unseal):
        with pytest.raises(Unavailable) as caught:
            call(b"bytes", context=CONTEXT)
        assert type(caught.value) is Unavailable
        assert "a-key" not in str(caught.value)


@pytest.mark.parametrize("code", ["InvalidCiphertextException", "IncorrectKeyException"])
def test_a_seal_that_is_not_ours_is_corrupt(
    kms_client: KMSClient, keys: KmsSealer, code: str
) -> None:
    """F10: altered bytes, another context or another key do not pass for an outage."""
    answers = Answers(kms_client, error(code))
    with pytest.raises(DataCorrupt):
        keys.unseal(b"sealed", context=CONTEXT)
    assert len(answers.requests) == 1


def test_both_ways_name_key_and_context(kms_client: KMSClient, keys: KmsSealer) -> None:
    """F12: KMS itself binds a seal to its context and refuses one of another key."""
    encoded = base64.b64encode(b"answered").decode()
    answers = Answers(kms_client, Answer({"CiphertextBlob": encoded, "Plaintext": encoded}))
    assert keys.seal(b"secret", context=CONTEXT) == b"answered"
    assert keys.unseal(b"sealed", context=CONTEXT) == b"answered"
    for body in answers.bodies:
        assert body["KeyId"] == "alias/a-key"
        assert body["EncryptionContext"] == CONTEXT
