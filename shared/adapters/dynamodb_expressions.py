"""The key conditions and filters of queries to DynamoDB."""

from typing import Any

from shared.adapters.dynamodb_items import Attribute, encode
from shared.ports.store import Where


def matching(pk: str, after: str | None, before: str | None, where: Where) -> dict[str, Any]:
    """Return the part of a request that selects the rows. Two bounds make a closed range."""
    request = _range(pk, after, before)
    names: dict[str, str] = request["ExpressionAttributeNames"]
    values: dict[str, Attribute] = request["ExpressionAttributeValues"]
    terms = []
    for number, (path, value) in enumerate(where.equal.items()):
        parts = {f"#w{number}_{depth}": name for depth, name in enumerate(path.split("."))}
        names |= parts
        values[f":w{number}"] = encode(value)
        terms.append(f"{'.'.join(parts)} = :w{number}")
    if where.alive_at is not None:
        names["#expires"] = "expires"
        values[":alive_at"] = encode(where.alive_at)
        terms.append("(attribute_not_exists(#expires) OR #expires > :alive_at)")
    return request | ({"FilterExpression": " AND ".join(terms)} if terms else {})


def _range(pk: str, after: str | None, before: str | None) -> dict[str, Any]:
    """Return the key condition. It may have only one term on `sk`, so two bounds make a BETWEEN."""
    match after, before:
        case None, None:
            condition = ""
        case _, None:
            condition = " AND #sk > :after"
        case None, _:
            condition = " AND #sk < :before"
        case _:
            condition = " AND #sk BETWEEN :after AND :before"
    values = {":pk": pk, ":after": after, ":before": before}
    return {
        "KeyConditionExpression": f"#pk = :pk{condition}",
        "ExpressionAttributeNames": {"#pk": "pk"} | ({"#sk": "sk"} if condition else {}),
        "ExpressionAttributeValues": {
            name: encode(value) for name, value in values.items() if value is not None
        },
    }
