"""Probe whether IAM evaluates the conditions of a transaction per item, in this account.

    python -m infra.write_probe

The roles of the functions may write only partitions of their own kinds (docs/adr/22). AWS does not
document how it evaluates such a condition if one transaction writes several partitions. The probe
creates a table and a role, writes three transactions, and removes both. It prints the value of the
parameter `WriteConditions` that works here (docs/deploy.md).
"""

import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

import boto3
from botocore.exceptions import BotoCoreError, ClientError

# infra/deployer.json permits a deployer to create tables and roles with this prefix.
_PREFIX: Final = "rescind-probe"
# Partition patterns as in the roles of the functions.
_PUT, _UPDATED, _OTHER = "put#1", "updated#1", "other#1"
_PUT_PATTERN, _UPDATED_PATTERN = "put#*", "updated#*"
# A new role becomes usable after some seconds, which differ between AWS endpoints.
_NEW_ROLE_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 1.0
_NOT_YET: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnrecognizedClientException"}
)


class WriteConditions(StrEnum):
    """The values of the parameter: how the roles limit writes."""

    ITEMS = "items"
    TABLES = "tables"


class AllowedTransactions(NamedTuple):
    """The transactions that IAM allowed.

    `plain` puts two permitted items. `mixed` also updates and checks other permitted items.
    `foreign` puts an item that is not permitted.
    """

    plain: bool
    mixed: bool
    foreign: bool


class ProbePacing(NamedTuple):
    """How the probe waits. Both functions use seconds."""

    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic


def choose_conditions(allowed_transactions: AllowedTransactions) -> WriteConditions:
    """Return the value that works: `items` only if IAM decided every transaction as intended."""
    intended = AllowedTransactions(plain=True, mixed=True, foreign=False)
    return WriteConditions.ITEMS if allowed_transactions == intended else WriteConditions.TABLES


def probe(session: boto3.Session, pacing: ProbePacing | None = None) -> AllowedTransactions:
    """Run the transactions with a temporary table and role. Raises the errors of boto3."""
    name = f"{_PREFIX}-{secrets.token_hex(4)}"
    with _table(session, name) as table_arn, _role(session, name, table_arn) as role_arn:
        pacing = pacing or ProbePacing()
        dynamodb = _assume_role(session, role_arn, pacing)
        plain = [_put(name, _PUT), _put(name, "put#2")]
        updated = {"TableName": name, "Key": _key(_UPDATED), "UpdateExpression": "ADD n :one"}
        updated["ExpressionAttributeValues"] = {":one": {"N": "1"}}
        checked = {"TableName": name, "Key": _key(_OTHER)}
        checked["ConditionExpression"] = "attribute_not_exists(pk)"
        mixed = [_put(name, _PUT), {"Update": updated}, {"ConditionCheck": checked}]
        foreign = [_put(name, _PUT), _put(name, _OTHER)]
        return AllowedTransactions(
            _is_allowed(dynamodb, plain, pacing, seconds=_NEW_ROLE_SECONDS),
            _is_allowed(dynamodb, mixed, pacing, seconds=_SETTLE_SECONDS),
            _is_allowed(dynamodb, foreign, pacing, seconds=0),
        )


@contextmanager
def _table(session: boto3.Session, name: str) -> Iterator[str]:
    dynamodb = session.client("dynamodb")
    response = dynamodb.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    try:
        dynamodb.get_waiter("table_exists").wait(TableName=name)
        yield response["TableDescription"]["TableArn"]
    finally:
        dynamodb.delete_table(TableName=name)


@contextmanager
def _role(session: boto3.Session, name: str, table_arn: str) -> Iterator[str]:
    iam = session.client("iam")
    caller = session.client("sts").get_caller_identity()["Arn"]
    trust = _policy({"Action": "sts:AssumeRole", "Principal": {"AWS": caller}})
    response = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    try:
        policy = _policy(
            {"Action": "dynamodb:ConditionCheckItem", "Resource": table_arn},
            _write("PutItem", table_arn, _PUT_PATTERN),
            _write("UpdateItem", table_arn, _UPDATED_PATTERN),
        )
        iam.put_role_policy(RoleName=name, PolicyName="probe", PolicyDocument=policy)
        yield response["Role"]["Arn"]
    finally:
        iam.delete_role_policy(RoleName=name, PolicyName="probe")
        iam.delete_role(RoleName=name)


def _policy(*statements: dict[str, Any]) -> str:
    allowing = [{"Effect": "Allow", **each} for each in statements]
    return json.dumps({"Version": "2012-10-17", "Statement": allowing})


def _write(action: str, table_arn: str, pattern: str) -> dict[str, Any]:
    """Return the statement of a write, with the condition of template.yaml."""
    condition = {
        "Null": {"dynamodb:LeadingKeys": "false"},
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": pattern},
    }
    return {"Action": f"dynamodb:{action}", "Resource": table_arn, "Condition": condition}


def _assume_role(session: boto3.Session, role_arn: str, pacing: ProbePacing) -> Any:
    """Return a client that uses the role."""
    sts = session.client("sts")
    assume = partial(sts.assume_role, RoleArn=role_arn, RoleSessionName="probe")
    credentials = _patiently(assume, pacing, seconds=_NEW_ROLE_SECONDS)["Credentials"]
    return boto3.Session(
        credentials["AccessKeyId"],
        credentials["SecretAccessKey"],
        credentials["SessionToken"],
        region_name=session.region_name,
    ).client("dynamodb")


def _is_allowed(dynamodb: Any, items: list[Any], pacing: ProbePacing, *, seconds: float) -> bool:
    """Return whether the transaction is allowed. A denial is retried for up to `seconds`."""
    try:
        _patiently(partial(dynamodb.transact_write_items, TransactItems=items), pacing, seconds)
    except ClientError as error:
        if not _is_denied(error):
            raise
        return False
    return True


def _patiently(call: Callable[[], Any], pacing: ProbePacing, seconds: float) -> Any:
    """Return the result of `call`, retrying it while it is denied. Raises its last error."""
    deadline = pacing.clock() + seconds
    while True:
        try:
            return call()
        except ClientError as error:
            if not _is_denied(error) or pacing.clock() >= deadline:
                raise
            pacing.sleep(_PAUSE_SECONDS)


def _is_denied(error: ClientError) -> bool:
    reasons = error.response.get("CancellationReasons", [])
    codes = {error.response["Error"]["Code"], *(each.get("Code") for each in reasons)}
    return not _NOT_YET.isdisjoint(codes)


def _put(table: str, partition: str) -> dict[str, Any]:
    return {"Put": {"TableName": table, "Item": _key(partition)}}


def _key(partition: str) -> dict[str, Any]:
    return {"pk": {"S": partition}}


def main() -> int:
    """Print the value of the parameter. Return 0, or 1 after a message if it is unknown."""
    print("Trying three transactions with a table and a role of their own …", file=sys.stderr)
    try:
        allowed = probe(boto3.Session())
    except (BotoCoreError, ClientError) as error:
        print(f"Cannot run the probe: {error}", file=sys.stderr)
        return 1
    if allowed.foreign:
        print(
            "IAM ignores the conditions in this account: each function that writes audit entries"
            " could write the head of the sealed log too.",
            file=sys.stderr,
        )
    print(f"WriteConditions={choose_conditions(allowed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
