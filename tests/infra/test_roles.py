"""Roles and key policy: nothing is granted by wildcard, and seeds are opened by those who sign."""

import re
from itertools import product
from typing import Any, Final

import pytest

from tests.infra.iam import Request, allowed, by_action, by_item, by_table
from tests.infra.templates import LAMBDAS, ROLES, managed, statements
from tests.kit.aws import FUNCTIONS, REGION, STAGE, stack, template
from tests.kit.recorded_calls import granted

ACCOUNT: Final = "arn:aws:iam::123456789012"
_KEY_POLICY: Final[list[dict[str, Any]]] = stack()["Key"]["Properties"]["KeyPolicy"]["Statement"]
# Without a migration, and what a migration adds.
KEY_POLICY: Final = [each for each in _KEY_POLICY if "Sid" in each]
(MOVE,) = (each["Fn::If"][1] for each in _KEY_POLICY if each.get("Fn::If", [""])[0] == "IsMoving")
USE: Final = re.compile(r"kms:(\*|CreateGrant|Decrypt|Encrypt|GenerateDataKey.*|ReEncrypt.*)")
THROUGH: Final = {f"{service}.{REGION}.amazonaws.com" for service in ("dynamodb", "s3")}


@pytest.mark.parametrize("name", LAMBDAS)
def test_no_role_has_a_wildcard(name: str) -> None:
    """Actions are named one by one, on named resources; of a bucket, on one folder.

    The name of a stream ends in the time at which it was switched on.
    """
    assert "ManagedPolicyArns" not in ROLES[f"{name}Role"]
    for statement in statements(name):
        assert "*" not in "".join(statement["Action"])
        resource = statement["Resource"].removesuffix("/stream/*")
        for folder in ("srl", "native", "audit", "checkpoints", "journal", "status", "trust"):
            resource = resource.removesuffix(f"/{folder}/*")
        assert "*" not in resource


@pytest.mark.parametrize("name", LAMBDAS)
def test_the_first_deployment_relies_on_no_condition_on_items(name: str) -> None:
    """F600c: By default most roles limit writes to tables, which IAM judges the same in any case.

    With `WriteConditions=items` they limit writes to partitions, and nothing else differs. The one
    condition of `tables` denies no write that a function makes, however IAM judges it.
    """
    of_tables, of_items = statements(name, "tables"), statements(name)
    limits_sign_in = name in {"SignIn", "SignInCode", "Introspection"}
    assert statements(name, "sign-in") == (of_items if limits_sign_in else of_tables)
    strict = [each for each in of_items if "LeadingKeys" in str(each)]
    assert len(of_tables) == len(of_items)
    for loose, each in zip(of_tables, of_items, strict=True):
        assert each in strict or loose == each
        assert {**each, "Condition": None} == {**loose, "Condition": None}
        assert "LeadingKeys" not in str(loose) or loose["Condition"] == _NOT_THE_HEAD
    assert name == "AuditLogSealing" or not re.search(r"#log\b", str(of_items))


_NOT_THE_HEAD: Final = {"ForAllValues:StringNotLike": {"dynamodb:LeadingKeys": "*#log"}}
_WRITE: Final = re.compile(r"dynamodb:(Delete|Put|Update)Item")


@pytest.mark.parametrize("name", LAMBDAS)
def test_a_statement_has_the_name_that_a_denial_logs(name: str) -> None:
    """F597b: A statement that lets a function write a table is named after the write and the table.

    The log of a denied write derives the name.
    """
    for statement in statements(name):
        table = str(statement["Resource"]).rpartition("-")[2].capitalize()
        writes = [found[1] for each in _each(statement["Action"]) if (found := _WRITE.match(each))]
        named = "Audit" if table == "Audit" else f"{''.join(writes)}{table}"
        assert not writes or statement["Sid"] == named


def _each(actions: str | list[str]) -> list[str]:
    return actions if isinstance(actions, list) else [actions]


@pytest.mark.parametrize("name", LAMBDAS)
def test_only_sealing_writes_the_head_of_the_log(name: str) -> None:
    """LOG-12, F816a, F900a: Of all functions, that which seals alone may write the head of a log.

    So it is with each value of `WriteConditions`, with or without a transaction, and however IAM
    judges the items of one. Those that write audit entries still do.
    """
    entry, log_head = f"{TENANT_ID}#2026-11", f"{TENANT_ID}#log"
    marks = [("dynamodb:PutItem", [each]) for each in (entry, f"{TENANT_ID}#2026-11#1")]
    for conditions, way in product(["tables", "sign-in", "items"], [by_item, by_action, by_table]):
        own = statements(name, conditions)
        writes = any(each["Sid"] == "Audit" for each in own)
        for action in WRITES:
            seals = name == "AuditLogSealing" and action == "dynamodb:PutItem"
            for items in ([log_head], [entry, log_head], [log_head, entry]):
                judged = way([(action, [each]) for each in items])
                assert all(_may_write_audit(own, *each) for each in judged) is seals, judged
        assert all(_may_write_audit(own, *each) for each in way(marks)) is writes, conditions


def _may_write_audit(own: list[dict[str, Any]], action: str, partitions: list[str]) -> bool:
    table = f"arn:aws:dynamodb:{REGION}:123456789012:table/rescind-{STAGE}-audit"
    return allowed(own, Request(action, table, {"dynamodb:LeadingKeys": partitions}))


# Which function seals and opens seeds of which purpose, and what of that the operator does.
SEEDS: Final[dict[tuple[str, str], set[str]]] = {
    ("kms:Encrypt", "warrant"): {"SigningKeys"},
    ("kms:Decrypt", "warrant"): {"SigningKeys"},
    ("kms:Encrypt", "native"): {"Authorizers"},
    ("kms:Decrypt", "native"): {"Authorizers"},
    ("kms:Encrypt", "status"): {"StatusLists"},
    ("kms:Decrypt", "status"): {"StatusLists"},
    ("kms:Encrypt", "audit"): {"AuditLog", "AuditLogSealing"},
    ("kms:Decrypt", "audit"): {"AuditLogSealing"},
    ("kms:Encrypt", "webhook"): {"Webhooks"},
    ("kms:Decrypt", "webhook"): {"WebhookDelivery"},
    ("kms:Encrypt", "srl"): {"Srl"},
    ("kms:Decrypt", "srl"): {"FeedPublication", "Srl", "SrlPublication", "Trust", "TrustRenewal"},
}
OPERATOR: Final = "operator"
OPERATORS: Final = {
    (action, purpose) for action in ("kms:Encrypt", "kms:Decrypt") for purpose in ("srl", "warrant")
}
BOUND: Final = {"tenant": "svc_tnt_a", "key": "svc_key_a", "version": "1"}


def _policy_and_role(name: str) -> tuple[list[dict[str, Any]], str]:
    if name == OPERATOR:
        return managed("OperatorPolicy"), "rescind-operator"
    return statements(name), ROLES[f"{name}Role"]["RoleName"]


def use(name: str, action: str, context: dict[str, str]) -> bool:
    """Whether a role may use the key, by its own policy and by the key's."""
    own, role = _policy_and_role(name)
    values = {f"kms:EncryptionContext:{each}": value for each, value in context.items()}
    values["aws:PrincipalArn"] = f"{ACCOUNT}:role/{role}"
    return allowed(own, Request(action, f"rescind-{STAGE}-key-arn", values)) and allowed(
        KEY_POLICY, Request(action, "*", values)
    )


def test_seeds_are_for_those_who_need_them() -> None:
    """F45a, S3: Each role on AWS can open only seeds of its own purpose."""
    purposes = ["warrant", "srl", "native", "status", "webhook", "audit", "another", None]
    actions = ["kms:Encrypt", "kms:Decrypt"]
    for name, action, purpose in product([*LAMBDAS, OPERATOR], actions, purposes):
        context = BOUND | ({"purpose": purpose} if purpose else {})
        may = name in SEEDS.get((action, str(purpose)), set())
        if name == OPERATOR:
            may = (action, str(purpose)) in OPERATORS
        assert use(name, action, context) is may, (name, action, purpose)


@pytest.mark.parametrize("missing", BOUND)
def test_a_seed_is_bound_to_all_that_it_belongs_to(missing: str) -> None:
    """F45: no role uses the key for what is bound to no tenant, no key, or no version."""
    context = {name: value for name, value in BOUND.items() if name != missing}
    for (action, purpose), names in SEEDS.items():
        for name in {*names, OPERATOR} if (action, purpose) in OPERATORS else names:
            assert use(name, action, BOUND | {"purpose": purpose})
            assert not use(name, action, context | {"purpose": purpose})


@pytest.mark.parametrize("side", ["role", "key"])
@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("Authorizers", "native"),
        ("StatusLists", "status"),
        ("SigningKeys", "warrant"),
        ("FeedPublication", "srl"),
        ("AuditLogSealing", "audit"),
        ("Srl", "srl"),
        ("SrlPublication", "srl"),
        ("Trust", "srl"),
    ],
)
def test_either_policy_alone_keeps_purposes_apart(side: str, name: str, own: str) -> None:
    """F45b, S3: The policies of role and KMS key each enforce the purpose of a seed."""
    values = {f"kms:EncryptionContext:{each}": value for each, value in BOUND.items()}
    values["aws:PrincipalArn"] = f"{ACCOUNT}:role/{ROLES[f'{name}Role']['RoleName']}"
    policy = {"role": statements(name), "key": KEY_POLICY}[side]
    resource = {"role": f"rescind-{STAGE}-key-arn", "key": "*"}[side]
    for purpose in ("warrant", "srl", "native", "status", "audit"):
        context = values | {"kms:EncryptionContext:purpose": purpose}
        assert allowed(policy, Request("kms:Decrypt", resource, context)) is (purpose == own)


# --- what each function may write ---

TENANT_ID: Final = "svc_tnt_01m7yzmhg014scvmqfzcb3mfmb"
WRITES: Final = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem")
# What would let somebody in, or change what is believed, and which functions write it.
GUARDED: Final[dict[tuple[str, str], set[str]]] = {
    # A person's keys end with the person, and unused keys in the pass of the schedule.
    ("keys", "api-key#0123"): {"ApiKeys", "Identities", "ServiceAccounts", "SrlSchedule"},
    ("keys", f"{TENANT_ID}#api-keys"): {"ApiKeys", "Identities", "SrlSchedule"},
    ("keys", f"{TENANT_ID}#service-accounts"): {"ApiKeys", "ServiceAccounts"},
    ("keys", f"{TENANT_ID}#keys"): {"SigningKeys"},
    ("keys", f"{TENANT_ID}#versions#svc_key_a"): {"SigningKeys"},
    ("keys", f"{TENANT_ID}#srl-keys"): {"Srl"},
    ("keys", f"{TENANT_ID}#srl-standby"): {"Srl"},
    ("keys", f"{TENANT_ID}#srl-keys-revoked"): {"Srl"},
    ("keys", f"{TENANT_ID}#audit-keys"): {"AuditLog", "AuditLogSealing"},
    ("keys", f"{TENANT_ID}#webhooks"): {"WebhookDelivery", "Webhooks"},
    ("keys", "tenant-handle#acme"): set(),
    ("keys", "tenants"): set(),
    # A logout at a provider revokes what it names.
    ("revocations", f"{TENANT_ID}#warrant#svc_wrt_a"): {"Revocations", "SignInCode", "SigningKeys"},
    # The publisher moves what ended long ago. Checks do not read it, lists are its own to make.
    ("revocations", f"{TENANT_ID}#revoked#0a"): {"Revocations", "SignInCode", "SrlPublication"},
    ("revocations", f"{TENANT_ID}#revocations"): {"Revocations", "SignInCode"},
    ("revocations", f"{TENANT_ID}#signed#svc_key_a"): {"SigningKeys"},
    ("revocations", f"{TENANT_ID}#srl"): {"Srl", "SrlPublication"},
    ("revocations", f"{TENANT_ID}#authorizers"): {"Authorizers"},
    ("revocations", f"{TENANT_ID}#registered-authorizers"): {"Authorizers"},
    ("revocations", f"{TENANT_ID}#feed"): {
        "FeedPublication",
        "Srl",
        "SrlPublication",
        "Trust",
        "TrustRenewal",
    },
}


def writers(table: str, partition: str) -> set[str]:
    """The functions that may write this partition, in whatever way."""
    resource = f"arn:aws:dynamodb:{REGION}:123456789012:table/rescind-{STAGE}-{table}"
    context = {"dynamodb:LeadingKeys": [partition]}
    return {
        name
        for name in LAMBDAS
        if any(allowed(statements(name), Request(each, resource, context)) for each in WRITES)
    }


def test_sign_in_writes_no_credential_by_default() -> None:
    """F2800a: By default, too, sign-in and introspection write only the kinds that they own."""
    default = template(FUNCTIONS)["Parameters"]["WriteConditions"]["Default"]
    for name in ("SignIn", "SignInCode", "Introspection"):
        assert statements(name, default) == statements(name, "items")


@pytest.mark.parametrize(("table", "partition"), GUARDED)
def test_a_function_writes_what_is_its_own(table: str, partition: str) -> None:
    """F45c, S8: Each function on AWS can write only the kinds of items that it owns."""
    assert writers(table, partition) == GUARDED[table, partition]


def test_no_function_alters_or_removes_audit_entries() -> None:
    """F45, S8: No function can update or delete audit entries."""
    resource = f"arn:aws:dynamodb:{REGION}:123456789012:table/rescind-{STAGE}-audit"
    for name in LAMBDAS:
        for action in ("dynamodb:UpdateItem", "dynamodb:DeleteItem"):
            assert not allowed(statements(name), Request(action, resource))


def test_nobody_else_uses_the_key() -> None:
    """S3: Administrators of the KMS key cannot use it."""
    for statement in KEY_POLICY:
        assert statement["Principal"] == {"AWS": f"{ACCOUNT}:root"}
        uses = [each for each in granted([statement]) if USE.fullmatch(each.action)]
        if "seeds" in statement["Sid"].lower():
            continue
        for _, _, condition in uses:
            assert {key: value for _, key, value in condition}["kms:ViaService"] in THROUGH


@pytest.mark.parametrize("purpose", ["warrant", "srl", "native", "status", "webhook", "audit"])
def test_a_move_opens_all_seeds_while_its_role_is_named(purpose: str) -> None:
    """F601b: The key's policy lets the role of a migration open and seal seeds of all purposes."""
    context = BOUND | {"purpose": purpose}
    values = {f"kms:EncryptionContext:{each}": value for each, value in context.items()}
    for role, may in (("MigrationRole", True), ("rescind-operator", False)):
        of = values | {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}
        named = MOVE | {"Condition": _of_role(MOVE["Condition"], "MigrationRole")}
        assert allowed([named], Request("kms:Decrypt", "*", of)) is may
    unbound = {name: value for name, value in values.items() if not name.endswith(":tenant")}
    assert not allowed([MOVE], Request("kms:Decrypt", "*", unbound))


def _of_role(condition: dict[str, Any], role: str) -> dict[str, Any]:
    return condition | {"ArnLike": {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}}


# --- the root of trust ---

_ROOT_POLICY: Final[list[dict[str, Any]]] = stack()["RootKey"]["Properties"]["KeyPolicy"][
    "Statement"
]
ROOT_POLICY: Final = [each for each in _ROOT_POLICY if "Sid" in each]
(BY_HAND,) = (
    each["Fn::If"][1] for each in _ROOT_POLICY if each.get("Fn::If", [""])[0] == "IsSignedByHand"
)
AS_DOCUMENTS: Final = {"kms:MessageType": "RAW", "kms:SigningAlgorithm": "ED25519_SHA_512"}


def signs(name: str, resource: str = f"rescind-{STAGE}-key-arn-root", **how: str) -> bool:
    """Whether a role may sign with a key, by its own policy and by the policy of the root key."""
    own, role = _policy_and_role(name)
    values = AS_DOCUMENTS | how | {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}
    return allowed(own, Request("kms:Sign", resource, values)) and allowed(
        ROOT_POLICY, Request("kms:Sign", "*", values)
    )


@pytest.mark.parametrize("name", [*LAMBDAS, OPERATOR])
def test_one_function_signs_documents(name: str) -> None:
    """F713b, S3, TRUST-7: Only the function that renews documents signs with the root on AWS."""
    assert signs(name) is (name == "TrustRenewal")
    # Neither with another key, nor in another way.
    assert not signs(name, f"rescind-{STAGE}-key-arn")
    assert not signs(name, **{"kms:MessageType": "DIGEST"})


def test_the_policy_of_the_root_key_alone_names_its_signer() -> None:
    """F713c, S3: The policy of the root key lets no other role sign, whatever its own allows."""
    for role in (each["RoleName"] for each in ROLES.values()):
        values = AS_DOCUMENTS | {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}
        may = role.startswith(f"rescind-{STAGE}-trust-renewal-")
        assert allowed(ROOT_POLICY, Request("kms:Sign", "*", values)) is may
    for statement in [*ROOT_POLICY, BY_HAND]:
        assert statement["Principal"] == {"AWS": f"{ACCOUNT}:root"}
        actions = {each.action for each in granted([statement])}
        assert not actions & {"kms:*", "kms:CreateGrant"}


def test_a_person_signs_while_their_role_is_named() -> None:
    """F713d: With `RootRole`, that role signs documents by hand, and no other."""
    for role, may in (("RootRole", True), ("rescind-operator", False)):
        values = AS_DOCUMENTS | {"aws:PrincipalArn": f"{ACCOUNT}:role/{role}"}
        named = BY_HAND | {"Condition": _of_role(BY_HAND["Condition"], "RootRole")}
        assert allowed([named], Request("kms:Sign", "*", values)) is may
