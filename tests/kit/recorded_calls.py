"""Permissions: those that calls to AWS need, and those that a policy grants, in the same words.

needed: set[Permission] = set()
with recording(needed):
    ports = wiring.from_environment()
...  # every call of these ports is in `needed`
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

import pytest
from botocore.loaders import Loader, create_loader
from botocore.session import get_session

from shared.adapters.aws import clients
from tests.kit.aws import FUNCTIONS, REGION, STAGE, template

ACCOUNT: Final = "123456789012"
# What an operation inside a transaction is called as a permission; the transaction has none.
_IN_TRANSACTIONS: Final = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}

# Of these kinds a tenant has several partitions, of which the first has no number.
_NUMBERED: Final = frozenset({"revocations", "srl-changed"})
_WRITES: Final = frozenset({"DeleteItem", "PutItem", "UpdateItem"})
_TENANT: Final = r"svc_tnt_[0-9a-z]{26}"
_MONTH: Final = r"[0-9]{4}-[0-9]{2}"
_LEADING: Final = ("ForAllValues:StringLike", "dynamodb:LeadingKeys")
_OF_A_PARTITION: Final = frozenset({("Null", "dynamodb:LeadingKeys", "false")})

# All of these have to hold: an operator of policies, a key, a value.
Condition = frozenset[tuple[str, str, str]]
Parameters = Mapping[str, Any]


class Permission(NamedTuple):
    """An action on a resource, under a condition."""

    action: str
    resource: str
    condition: Condition = frozenset()


@contextmanager
def recording(needed: set[Permission]) -> Iterator[None]:
    """Have every client that is made inside note what each of its calls needs.

    A signed address is a call like any other: it is good for what its signer may do.
    """

    def note(**call: Any) -> None:
        model, service = call["model"], call["model"].service_model.service_name
        needed.update(_NEEDED[service](model.name, call["params"]))

    session = get_session()
    session.register_component("data_loader", _loader())
    session.register("provide-client-params", note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "_session", lambda: session)
        yield


@cache
def _loader() -> Loader:
    """What reads the descriptions of the services: once, for all sessions."""
    return create_loader()


def granted(statements: Iterable[Mapping[str, Any]]) -> set[Permission]:
    """What the statements of a policy allow, one permission for each combination."""
    assert all(statement["Effect"] == "Allow" for statement in statements)
    return {
        Permission(action, resource, condition)
        for statement in statements
        for action in _each(statement["Action"])
        for resource in _each(statement["Resource"])
        for condition in _conditions(statement.get("Condition", {}))
    }


def _conditions(written: Mapping[str, Mapping[str, Any]]) -> Iterator[Condition]:
    """One condition for each choice among the values that a key may have."""
    choices = [
        [(operator, key, value) for value in _each(values)]
        for operator, keys in written.items()
        for key, values in keys.items()
    ]
    return (frozenset(choice) for choice in product(*choices))


def _each(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _dynamodb(operation: str, params: Parameters) -> Iterator[Permission]:
    yield _through("dynamodb", "kms:Decrypt")
    match operation:
        case "TransactWriteItems":
            for item in params["TransactItems"]:
                ((kind, change),) = item.items()
                yield _change(_IN_TRANSACTIONS[kind], change)
        case "BatchGetItem":
            for table in params["RequestItems"]:
                yield _on_table(operation, table)
        case _:
            yield _change(operation, params)


def _change(operation: str, params: Parameters) -> Permission:
    """What is written must be of a kind that the role may write; what is read, of any."""
    permission = _on_table(operation, params["TableName"])
    if operation not in _WRITES:
        return permission
    partition = (params.get("Item") or params["Key"])["pk"]["S"]
    leading = (*_LEADING, kind(partition))
    return permission._replace(condition=frozenset({*_OF_A_PARTITION, leading}))


def of_any_partition(permission: Permission) -> Permission:
    """The same for a role that writes all kinds of items."""
    if not permission.action.startswith("dynamodb:"):
        return permission
    return permission._replace(condition=frozenset())


def kind(partition: str) -> str:
    """The pattern of all partitions like this one: of any tenant, and of any key or shard."""
    name = re.sub(rf"^{_TENANT}(?=#)", "svc_tnt_*", partition)
    if re.fullmatch(_TENANT, name):
        return "svc_tnt_" + "?" * 26
    parts = name.split("#")
    if len(parts) > 1 and re.fullmatch(_MONTH, parts[1]):
        # The entries of any month, and no other item of the table `audit`.
        return "svc_tnt_*#????-??*"
    whole = 2 if parts[0] == "svc_tnt_*" else 1
    if whole == 2 and parts[1] in _NUMBERED:
        return f"svc_tnt_*#{parts[1]}*"
    return "#".join(parts[:whole]) + ("#*" if len(parts) > whole else "")


def _on_table(action: str, table: str) -> Permission:
    return Permission(f"dynamodb:{action}", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}")


def _s3(operation: str, params: Parameters) -> Iterator[Permission]:
    bucket = f"arn:aws:s3:::{params['Bucket']}"
    folder = params.get("Key", params.get("Prefix")).partition("/")[0]
    listing = frozenset({("StringLike", "s3:prefix", f"{folder}/*")})
    match operation:
        case "GetObject":
            yield Permission("s3:GetObject", f"{bucket}/{folder}/*")
            yield _through("s3", "kms:Decrypt")
            # Only who may list is told that there is no such object.
            yield Permission("s3:ListBucket", bucket, listing)
        case "PutObject":
            yield Permission("s3:PutObject", f"{bucket}/{folder}/*")
            yield _through("s3", "kms:GenerateDataKey")
        case "ListObjectsV2":
            yield Permission("s3:ListBucket", bucket, listing)


def _kms(operation: str, params: Parameters) -> Iterator[Permission]:
    key, slash, name = params["KeyId"].removeprefix("alias/").partition("/")
    if slash:
        yield Permission(f"kms:{operation}", f"{key}-key-arn-{name}")
        return
    context = dict(params["EncryptionContext"])
    purpose = context.pop("purpose", None)
    bound = {("Null", f"kms:EncryptionContext:{name}", "false") for name in context}
    if purpose is None:
        bound.add(("Null", "kms:EncryptionContext:purpose", "true"))
    else:
        bound.add(("StringEquals", "kms:EncryptionContext:purpose", purpose))
    yield Permission(f"kms:{operation}", f"{key}-key-arn", frozenset(bound))


def _through(service: str, action: str) -> Permission:
    """What the service does with the project's key in its caller's name."""
    via = ("StringEquals", "kms:ViaService", f"{service}.{REGION}.amazonaws.com")
    return Permission(action, f"rescind-{STAGE}-key-arn", frozenset({via}))


def _sqs(operation: str, params: Parameters) -> Iterator[Permission]:
    name = params["QueueUrl"].rpartition("/")[2]
    (queue,) = (
        logical
        for logical, resource in template(FUNCTIONS)["Resources"].items()
        if resource.get("Properties", {}).get("QueueName") == name
    )
    yield Permission(f"sqs:{operation.removesuffix('Batch')}", f"{queue}.Arn")


_NEEDED: Final[Mapping[str, Callable[[str, Parameters], Iterator[Permission]]]] = {
    "dynamodb": _dynamodb,
    "kms": _kms,
    "s3": _s3,
    "sqs": _sqs,
}
