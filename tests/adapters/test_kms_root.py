"""A root key in KMS, where KMS fails, and in a KMS that signs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared import wiring
from shared.adapters.aws import kms
from shared.adapters.aws.kms import KmsRoot
from shared.authorizer.formats import ed25519
from shared.errors import Unavailable
from tests import aws_local
from tests.adapters.answers import Answer, Answers, Step, error
from tests.adapters.kms_outages import OUTAGES
from tests.engines.programs import ministack
from tests.kit.aws import REGION, pretend_credentials

if TYPE_CHECKING:
    from mypy_boto3_kms import KMSClient

_KEY = Ed25519PrivateKey.generate()


def _public(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> Answer:
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Answer({"PublicKey": base64.b64encode(der).decode()})


def _signed(data: bytes) -> Answer:
    return Answer({"Signature": base64.b64encode(_KEY.sign(data)).decode()})


@pytest.fixture
def root(kms_client: KMSClient) -> KmsRoot:
    return KmsRoot(lambda: kms_client, key_id="alias/a-root")


def test_kms_is_asked_to_sign_the_data_itself(kms_client: KMSClient, root: KmsRoot) -> None:
    """F709a: KMS signs the raw data; its public key is asked for once."""
    answers = Answers(kms_client, _public(_KEY), _signed(b"data"))
    assert root.sign(b"data") == root.sign(b"data") == _KEY.sign(b"data")
    assert answers.bodies[1:] == 2 * [
        {
            "KeyId": "alias/a-root",
            "Message": base64.b64encode(b"data").decode(),
            "MessageType": "RAW",
            "SigningAlgorithm": "ED25519_SHA_512",
        }
    ]


@pytest.mark.parametrize("name", OUTAGES)
@pytest.mark.parametrize("is_known", [False, True])
def test_an_outage_is_unavailable(
    kms_client: KMSClient, root: KmsRoot, name: str, is_known: bool
) -> None:
    """F709b: If KMS cannot sign now, nothing is signed, and the key is not named."""
    steps: tuple[Step, ...] = (_public(_KEY),) if is_known else ()
    Answers(kms_client, *steps, OUTAGES[name])
    with pytest.raises(Unavailable) as caught:
        root.sign(b"data")
    assert "a-root" not in str(caught.value)


def test_a_signature_of_other_data_is_refused(kms_client: KMSClient, root: KmsRoot) -> None:
    """F709c: A signature that does not verify is an outage, and is never passed on."""
    Answers(kms_client, _public(_KEY), _signed(b"other"))
    with pytest.raises(Unavailable, match="an invalid signature"):
        root.sign(b"data")


@pytest.mark.parametrize(
    "answer",
    [_public(ec.generate_private_key(ec.SECP256R1())), Answer({"PublicKey": "AAAA"})],
    ids=["another algorithm", "no key"],
)
def test_a_key_of_another_kind_is_refused(
    kms_client: KMSClient, root: KmsRoot, answer: Answer
) -> None:
    """F709d: A key that cannot sign documents is said to be none, with the specification to use."""
    Answers(kms_client, answer)
    with pytest.raises(Unavailable, match="ECC_NIST_EDWARDS25519"):
        root.sign(b"data")


def test_a_role_without_the_right_cannot_sign(kms_client: KMSClient, root: KmsRoot) -> None:
    """F709e: A role that lacks `kms:Sign` signs nothing."""
    Answers(kms_client, _public(_KEY), error("AccessDeniedException"))
    with pytest.raises(Unavailable, match="Sign"):
        root.sign(b"data")


@pytest.mark.slow
@pytest.mark.skipif(not aws_local.is_installed(), reason="needs make .tools/ministack/.installed")
def test_a_kms_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F709f: What a KMS of another project signs verifies here; a disabled key signs nothing."""
    pretend_credentials(monkeypatch)
    with ministack(tmp_path) as started:
        monkeypatch.setenv("AWS_ENDPOINT_URL", started["RESCIND_TEST_KMS_ENDPOINT"])
        monkeypatch.delenv("AWS_DEFAULT_REGION")
        client = kms.connect(region=REGION)
        made = client.create_key(KeySpec="ECC_NIST_EDWARDS25519", KeyUsage="SIGN_VERIFY")
        key = made["KeyMetadata"]
        root = wiring.root_at(f"kms:{key['Arn']}")
        assert root is not None
        signature = root.sign(bytes(49))
        assert ed25519.is_signed(bytes(49), signature, public_key=root.public_key)
        client.disable_key(KeyId=key["KeyId"])
        with pytest.raises(Unavailable):
            root.sign(bytes(49))
        client.close()
