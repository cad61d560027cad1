"""A pretended AWS account, holding what the templates say: no copy of any schema or name here.

    with aws() as account:
        store = DynamoStore(account.dynamodb, table_prefix=account.table_prefix)

Nothing reaches the network, whatever credentials the machine has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from moto import mock_aws
from moto.kms.utils import generate_private_key
from yaml.constructor import SafeConstructor

from shared.adapters.aws import dynamodb, kms, s3, sqs
from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.dynamodb_buckets import DynamoBuckets, DynamoUsage
from shared.adapters.aws.kms import KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.ports import Ports
from shared.wiring import identifiers
from tests.kit import moto_requests

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kms import KMSClient
    from mypy_boto3_s3 import S3Client

REGION: Final = "eu-west-1"
STAGE = "test"
STATEFUL: Final = "infra/stateful.yaml"
FUNCTIONS: Final = "template.yaml"

_ROOT: Final = Path(__file__).parent.parent.parent
# What stands for a property that is not there.
LEFT_OUT: Final = "AWS::NoValue"
# What CloudFormation puts in for the names in a template, beside the template's own parameters.
_PARAMETERS = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": f"rescind-{STAGE}",
}
# What these conditions are with the defaults of the parameters.
_DECIDED: Final = {
    "HasBoundary": False,
    "HasLogsKey": False,
    "IsCopied": False,
    "IsFirst": True,
    "IsMultiRegion": False,
}
# What a pretended table cannot or need not have.
_NOT_LOCAL = (
    "DeletionProtectionEnabled",
    "PointInTimeRecoverySpecification",
    "SSESpecification",
    "StreamSpecification",
)


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
        """The key's alias. The key is made when first asked for."""
        alias: str = stack()["KeyAlias"]["Properties"]["AliasName"]
        key = self.kms.create_key()
        self.kms.create_alias(AliasName=alias, TargetKeyId=key["KeyMetadata"]["KeyId"])
        return alias

    def ports(self, clock: Callable[[], datetime]) -> Ports:
        """Ports on all services of the account."""
        return Ports(
            store=DynamoStore(self.dynamodb, table_prefix=self.table_prefix),
            buckets=DynamoBuckets(self.dynamodb, table_prefix=self.table_prefix),
            usage=DynamoUsage(self.dynamodb, table_prefix=self.table_prefix),
            blobs=S3Blobs(lambda: self.s3, bucket=self.bucket),
            sealer=KmsSealer(lambda: self.kms, key_id=self.key_id),
            now=clock,
            new_id=identifiers(clock),
        )

    @cached_property
    def queue_url(self) -> str:
        """The address of the queue of publications, which is made when first asked for."""
        client = sqs.connect()
        queue = template(FUNCTIONS)["Resources"]["PublicationQueue"]["Properties"]
        url = client.create_queue(QueueName=queue["QueueName"])["QueueUrl"]
        client.close()
        return url


@cache
def _clients() -> tuple[DynamoDBClient, S3Client, KMSClient]:
    """One set for the whole process, since making them takes longer than most tests.

    A test that registers handlers on a client makes its own with `connect`.
    """
    return dynamodb.connect(), s3.connect(), kms.connect()


@cache
def _unused_key(spec: str) -> Any:
    """What moto gives each key for signatures, also one that encrypts: an RSA key, made once."""
    return generate_private_key(spec)


@contextmanager
def aws() -> Iterator[Account]:
    """Pretend an account with the stateful stack in it; it is gone at the end."""
    with pytest.MonkeyPatch.context() as environment, mock_aws(), moto_requests.installed():
        pretend_credentials(environment)
        environment.setattr("moto.kms.models.generate_private_key", _unused_key)
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
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        environment.delenv(name)
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


def table_prefix(stage: str) -> str:
    """What the names of a stage's tables begin with, as the stack's output tells it."""
    prefix: str = template(STATEFUL, stage)["Outputs"]["TablePrefix"]["Value"]
    return prefix


def create_tables(client: DynamoDBClient, *, stage: str = STAGE) -> None:
    """Make the stack's tables, at any DynamoDB endpoint."""
    for resource in stack(stage).values():
        if resource["Type"] != "AWS::DynamoDB::Table":
            continue
        table = dict(resource["Properties"])
        expiry = table.pop("TimeToLiveSpecification", None)
        for name in _NOT_LOCAL:
            table.pop(name, None)
        client.create_table(**table)
        # Elsewhere than here that takes some seconds.
        client.get_waiter("table_exists").wait(
            TableName=table["TableName"], WaiterConfig={"Delay": 2}
        )
        if expiry:
            client.update_time_to_live(TableName=table["TableName"], TimeToLiveSpecification=expiry)


def stack(stage: str = STAGE) -> dict[str, Any]:
    """The stateful template's resources by name, with the stage filled in."""
    resources: dict[str, Any] = template(STATEFUL, stage)["Resources"]
    return resources


@cache
def template(name: str, stage: str = STAGE) -> dict[str, Any]:
    """The template in a file of the project, its parameters filled in with their defaults.

    What only a deployment knows stays a name: `Key.Arn` of a `!GetAtt`, the export of an import.
    """
    found = written(name)
    defaults = {each: str(its.get("Default", each)) for each, its in found["Parameters"].items()}
    filled: dict[str, Any] = _fill(found, defaults | _PARAMETERS | {"Stage": stage})
    return filled


def written(name: str) -> dict[str, Any]:
    """The template in a file of the project, with CloudFormation's functions in their long form."""
    found: dict[str, Any] = yaml.load((_ROOT / name).read_text(), Loader=_Loader)
    return found


class _Loader(yaml.CSafeLoader):
    """YAML with CloudFormation's short forms, which become the long ones."""


def _long_form(loader: SafeConstructor, form: str, node: yaml.Node) -> dict[str, Any]:
    name = form if form in {"Condition", "Ref"} else f"Fn::{form}"
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.ScalarNode)
    return {name: str(loader.construct_scalar(node))}


yaml.add_multi_constructor("!", _long_form, Loader=_Loader)


def _fill(value: Any, parameters: Mapping[str, str]) -> Any:
    match value:
        case {"Ref": str(name)}:
            return parameters.get(name, name)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([^}]+)\}", lambda found: parameters.get(found[1], found[0]), text)
        case {"Fn::GetAtt": name} | {"Fn::ImportValue": name}:
            return _fill(name, parameters)
        case {"Fn::If": [str(name), then, otherwise]} if name in _DECIDED:
            return _fill(then if _DECIDED[name] else otherwise, parameters)
        case dict() | list():
            return _filled(value, parameters)
        case _:
            return value


def _filled(value: Any, parameters: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_fill(each, parameters) for each in value]
    filled = {name: _fill(each, parameters) for name, each in value.items()}
    return {name: each for name, each in filled.items() if each != LEFT_OUT}


def _create_bucket(account: Account) -> None:
    account.s3.create_bucket(
        Bucket=account.bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    account.s3.put_bucket_versioning(
        Bucket=account.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
