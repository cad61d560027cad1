"""The policy of those who deploy: what CloudFormation calls in their name, and no data."""

import json
from typing import Any, Final

import pytest

from tests.infra.iam import Request, allowed
from tests.infra.templates import ALARMS
from tests.kit.aws import FUNCTIONS, REGION, STATEFUL, template
from tests.kit.processes import ROOT
from tests.sam.tool import reading

POLICY: Final[dict[str, Any]] = json.loads((ROOT / "infra" / "deployer.json").read_text())
STATEMENTS: Final[list[dict[str, Any]]] = POLICY["Statement"]

# AWS's descriptions of its resources, which the linter brings along.
SCHEMAS: Final = ROOT / ".tools/sam/lib"

# Services that a resource may have to do with, and none of ours has.
ELSEWHERE: Final = {
    "codedeploy",
    "ec2",
    "elasticfilesystem",
    "firehose",
    "kinesis",
    "s3files",
    "s3tables",
}
# What is in tables and in the bucket is not the deployer's, nor are users and groups.
NOT_GIVEN: Final = {
    # The policies of the stacks are those of roles.
    *("iam:getgrouppolicy", "iam:putgrouppolicy", "iam:deletegrouppolicy"),
    *("iam:getuserpolicy", "iam:putuserpolicy", "iam:deleteuserpolicy"),
    "dynamodb:batchwriteitem",
    "dynamodb:deleteitem",
    "dynamodb:getitem",
    "dynamodb:putitem",
    "dynamodb:query",
    "dynamodb:scan",
    "dynamodb:updateitem",
    "iam:attachgrouppolicy",
    "iam:attachuserpolicy",
    "iam:detachgrouppolicy",
    "iam:detachuserpolicy",
    "logs:createlogstream",
    "logs:describelogstreams",
    "logs:putlogevents",
    "s3:deleteobject",
    "s3:getobject",
    "s3:getobjectmetadata",
    "s3:getobjectversion",
    "s3:putobjectacl",
    "s3:rest.put.object",
}


# What a call is about, by action or service; elsewhere the policy names no resource.
ABOUT: Final = {
    "dynamodb": f"arn:aws:dynamodb:{REGION}:1:table/rescind-prod-keys",
    "iam": "arn:aws:iam::1:role/rescind-prod-srl",
    "iam:CreateServiceLinkedRole": "arn:aws:iam::1:role/aws-service-role/dynamodb",
    "s3": "arn:aws:s3:::rescind-prod-blobs-1",
}
# IAM does not tell upper from lower case, and AWS's descriptions write some actions either way.
LOWERED: Final = [
    {**each, "Action": [name.lower() for name in each["Action"]]} for each in STATEMENTS
]


def given(action: str) -> bool:
    """Whether the policy allows an action on a resource of the service's."""
    about = ABOUT.get(action) or ABOUT.get(action.partition(":")[0], "*")
    through = {"kms:ViaService": f"dynamodb.{REGION}.amazonaws.com"}
    return allowed(LOWERED, Request(action.lower(), about, through))


@pytest.mark.slow
def test_the_deployer_may_make_every_resource() -> None:
    """F102b: The documented policy of the deployer allows every call that the stacks need."""
    (providers,) = SCHEMAS.glob(
        f"python3*/site-packages/cfnlint/data/schemas/providers/{REGION}.json"
    )
    schemas: dict[str, str] = json.loads(providers.read_text())
    written = {
        each["Type"] for path in (STATEFUL, ALARMS) for each in template(path)["Resources"].values()
    }
    missing = set()
    for kind in written | set(reading(ROOT, "kinds", FUNCTIONS)):
        schema = providers.parent.parent / "resources" / f"{schemas[kind]}.json"
        handlers = json.loads(schema.read_text())["handlers"]
        for name in ("create", "read", "update", "delete"):
            missing |= {
                (kind, each)
                for each in handlers.get(name, {}).get("permissions", ())
                if each.partition(":")[0] not in ELSEWHERE
                and each.lower() not in NOT_GIVEN
                and not given(each)
            }
    assert missing == set()


DATA: Final = [
    ("dynamodb:GetItem", "arn:aws:dynamodb:eu-west-1:1:table/rescind-prod-keys"),
    ("dynamodb:Query", "arn:aws:dynamodb:eu-west-1:1:table/rescind-prod-audit"),
    ("dynamodb:PutItem", "arn:aws:dynamodb:eu-west-1:1:table/rescind-prod-keys"),
    ("s3:GetObject", "arn:aws:s3:::rescind-prod-blobs-1-eu-west-1/srl/a"),
    ("s3:PutObject", "arn:aws:s3:::rescind-prod-blobs-1-eu-west-1/srl/a"),
    ("kms:Decrypt", "arn:aws:kms:eu-west-1:1:key/a"),
    ("lambda:InvokeFunction", "arn:aws:lambda:eu-west-1:1:function:rescind-prod-srl"),
    ("iam:CreateRole", "arn:aws:iam::1:role/admin"),
    ("iam:PassRole", "arn:aws:iam::1:role/admin"),
    ("iam:CreateUser", "arn:aws:iam::1:user/rescind-x"),
]


@pytest.mark.parametrize(("action", "resource"), DATA)
def test_the_deployer_sees_no_data(action: str, resource: str) -> None:
    """F102: who deploys reads no records and no lists, opens no seeds, and makes no other roles."""
    assert not allowed(STATEMENTS, Request(action, resource))


def test_the_policy_can_be_made() -> None:
    """F102: IAM takes 6,144 characters, without white space, for a policy of the customer's."""
    assert len(json.dumps(POLICY, separators=(",", ":"))) <= 6144
