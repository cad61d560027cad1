"""A pretended AWS account, holding what `infra/stateful.yaml` says: no copy of any schema here.

    with aws() as account:
        store = DynamoStore(account.dynamodb, table_prefix=account.table_prefix)

Nothing reaches the network, whatever credentials the machine has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from moto import mock_aws

from shared.adapters import dynamodb, kms, s3

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client

REGION: Final = "eu-west-1"
STAGE = "test"
TEMPLATE = Path(__file__).parent.parent / "infra" / "stateful.yaml"

# What CloudFormation puts in for the names in the template, beside the stage.
_PARAMETERS = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
}
# What a pretended table cannot or need not have.
_NOT_LOCAL = ("DeletionProtectionEnabled", "PointInTimeRecoverySpecification", "SSESpecification")


@dataclass(frozen=True)
class Account:
    """Clients, and the names of what they find there."""

    dynamodb: DynamoDBClient
    s3: S3Client
    kms: KMSClient
    table_prefix: str
    bucket: str

    @cached_property
    def key_id(self) -> str:
        """The key's alias. The key is made when first asked for: that takes a while."""
        alias: str = stack()["KeyAlias"]["Properties"]["AliasName"]
        key = self.kms.create_key()
        self.kms.create_alias(AliasName=alias, TargetKeyId=key["KeyMetadata"]["KeyId"])
        return alias


@cache
def _clients() -> tuple[DynamoDBClient, S3Client, KMSClient]:
    """One set for the whole process, since making them takes longer than most tests.

    A test that registers handlers on a client makes its own with `connect`.
    """
    return dynamodb.connect(), s3.connect(), kms.connect()


@contextmanager
def aws() -> Iterator[Account]:
    """Pretend an account with the stateful stack in it; it is gone at the end."""
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        pretend_credentials(environment)
        account = Account(
            *_clients(),
            table_prefix=table_prefix(STAGE),
            bucket=stack()["Bucket"]["Properties"]["BucketName"],
        )
        create_tables(account.dynamodb)
        _create_bucket(account)
        yield account


def pretend_credentials(environment: pytest.MonkeyPatch) -> None:
    """Settings with which a client can be made and its requests signed, and that are nobody's."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "pretended",
        "AWS_SESSION_TOKEN": "pretended",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        environment.setenv(name, value)
    environment.delenv("AWS_PROFILE", raising=False)
    environment.delenv("AWS_ENDPOINT_URL", raising=False)


def table_prefix(stage: str) -> str:
    """What the names of a stage's tables begin with, as the stack's output tells it."""
    prefix: str = _template(stage)["Outputs"]["TablePrefix"]["Value"]
    return prefix


def create_tables(client: DynamoDBClient, *, stage: str = STAGE) -> None:
    """Make the stack's tables, at any DynamoDB endpoint."""
    for resource in stack(stage).values():
        if resource["Type"] != "AWS::DynamoDB::Table":
            continue
        table = dict(resource["Properties"])
        expiry = table.pop("TimeToLiveSpecification", None)
        for name in _NOT_LOCAL:
            table.pop(name)
        client.create_table(**table)
        if expiry:
            client.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=expiry)


def stack(stage: str = STAGE) -> dict[str, Any]:
    """The template's resources by name, with the stage filled in."""
    resources: dict[str, Any] = _template(stage)["Resources"]
    return resources


@cache
def _template(stage: str) -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        """YAML with CloudFormation's short forms; parameters are filled in, others stay."""

    parameters = _PARAMETERS | {"Stage": stage}
    yaml.add_multi_constructor("!", partial(_construct, parameters), Loader=Loader)
    template: dict[str, Any] = yaml.load(TEMPLATE.read_text(), Loader=Loader)
    return template


def _construct(
    parameters: Mapping[str, str], loader: yaml.SafeLoader, form: str, node: yaml.ScalarNode
) -> str:
    text = str(loader.construct_scalar(node))
    if form == "Ref":
        return parameters.get(text, text)
    if form == "Sub":
        return re.sub(r"\$\{([^}]+)\}", lambda found: parameters.get(found[1], found[0]), text)
    return text


def _create_bucket(account: Account) -> None:
    account.s3.create_bucket(
        Bucket=account.bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    account.s3.put_bucket_versioning(
        Bucket=account.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
