"""Roles and key policy: nothing is granted by wildcard, and seeds are opened by those who sign."""

import re
from typing import Any, Final

import pytest

from tests.aws import REGION, stack
from tests.infra.templates import LAMBDAS, ROLES, statements
from tests.recorded_calls import granted

ACCOUNT: Final = "arn:aws:iam::123456789012"
KEY_POLICY: Final[list[dict[str, Any]]] = stack()["Key"]["Properties"]["KeyPolicy"]["Statement"]
USE: Final = re.compile(r"kms:(\*|CreateGrant|Decrypt|Encrypt|GenerateDataKey.*|ReEncrypt.*)")
THROUGH: Final = {f"{service}.{REGION}.amazonaws.com" for service in ("dynamodb", "s3")}


@pytest.mark.parametrize("name", LAMBDAS)
def test_no_role_has_a_wildcard(name: str) -> None:
    """Actions are named one by one, on named resources; of a bucket, on one folder."""
    assert "ManagedPolicyArns" not in ROLES[f"{name}Role"]
    for statement in statements(name):
        assert "*" not in "".join(statement["Action"])
        assert "*" not in statement["Resource"].removesuffix("/srl/*")


def direct(action: str) -> set[str]:
    """The roles that use the key themselves, not through the service that stores for them."""
    return {
        f"{ACCOUNT}:role/{ROLES[f'{name}Role']['RoleName']}"
        for name in LAMBDAS
        for statement in statements(name)
        if action in statement["Action"] and "Null" in statement["Condition"]
    }


def key_policy(sid: str) -> dict[str, Any]:
    (found,) = (statement for statement in KEY_POLICY if statement["Sid"] == sid)
    return dict(found)


@pytest.mark.parametrize(
    ("sid", "action"), [("SealSeeds", "kms:Encrypt"), ("OpenSeeds", "kms:Decrypt")]
)
def test_seeds_are_for_those_who_need_them(sid: str, action: str) -> None:
    """The key seals and opens seeds for the roles that do so and the operator, bound to a key."""
    statement = key_policy(sid)
    operator = f"{ACCOUNT}:role/rescind-operator"
    assert statement["Action"] == action
    assert set(statement["Condition"]["ArnLike"]["aws:PrincipalArn"]) == direct(action) | {operator}
    assert statement["Condition"]["Null"] == {
        "kms:EncryptionContext:tenant": "false",
        "kms:EncryptionContext:key": "false",
    }


def test_nobody_else_uses_the_key() -> None:
    """Who administers the key cannot use it; others use it through a table or the bucket."""
    for statement in KEY_POLICY:
        assert statement["Principal"] == {"AWS": f"{ACCOUNT}:root"}
        uses = [each for each in granted([statement]) if USE.fullmatch(each.action)]
        if statement["Sid"] in {"SealSeeds", "OpenSeeds"}:
            continue
        for _, _, condition in uses:
            assert {key: value for _, key, value in condition}["kms:ViaService"] in THROUGH
