"""`infra/stateful.yaml`: what no deployment may destroy, and what nobody else may read."""

from typing import Any

import pytest

from tests.kit.aws import stack


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in stack().items()
        if resource["Type"] == kind
    }


@pytest.mark.parametrize("name", of_kind("AWS::DynamoDB::Table"))
def test_a_table_is_protected(name: str) -> None:
    """S8: Tables are encrypted, undeletable and restorable to any second of 35 days."""
    table = stack()[name]["Properties"]
    assert table["DeletionProtectionEnabled"] is True
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["SSESpecification"]["KMSMasterKeyId"] == "Key.Arn"
    assert "GlobalSecondaryIndexes" not in table  # such a read is never consistent


def test_no_revocation_expires() -> None:
    """F30: no revocation goes away by itself, and of keys only what is kept of a request does."""
    tables = of_kind("AWS::DynamoDB::Table").values()
    assert {table["TableName"]: table.get("TimeToLiveSpecification") for table in tables} == {
        "rescind-test-keys": {"AttributeName": "expires", "Enabled": True},
        "rescind-test-revocations": None,
        "rescind-test-audit": {"AttributeName": "expires", "Enabled": True},
    }


def test_the_bucket_is_private() -> None:
    """S8: The bucket is private and accepts only TLS."""
    (bucket,) = of_kind("AWS::S3::Bucket").values()
    (policy,) = of_kind("AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_list_outlives_its_validity() -> None:
    """F125: lists expire after their validity; native and status lists, made again, after a day.

    A list is in force for half of its lifetime, which is 3.5 days, and valid for 7. An object that
    expired can be brought back for a week.
    """
    (bucket,) = of_kind("AWS::S3::Bucket").values()
    rules = bucket["LifecycleConfiguration"]["Rules"]
    expiring = {
        rule.get("Prefix"): rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule
    }
    assert expiring == {"srl/": 9, "native/": 1, "status/": 1, "checkpoints/": 30, "journal/": 30}
    removed = {
        rule.get("Prefix"): rule["NoncurrentVersionExpiration"]["NoncurrentDays"] for rule in rules
    }
    assert removed.pop("native/") == removed.pop("status/") == 1
    assert set(removed.values()) == {7}


def test_the_key_is_renewed() -> None:
    """The key that everything hangs on rotates, and its removal can be undone for a month."""
    keys = of_kind("AWS::KMS::Key")
    assert keys["Key"]["EnableKeyRotation"] is True
    assert {each["PendingWindowInDays"] for each in keys.values()} == {30}


def test_the_root_key_signs_as_documents_are_signed() -> None:
    """F713a, TRUST-8: The root key in KMS is of Ed25519, and only signs."""
    key = of_kind("AWS::KMS::Key")["RootKey"]
    assert key["KeySpec"] == "ECC_NIST_EDWARDS25519"
    assert key["KeyUsage"] == "SIGN_VERIFY"
