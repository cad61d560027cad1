"""What a query to DynamoDB asks for, in its expressions."""

from typing import Any

from shared.adapters.dynamodb_items import Attribute, encode
from shared.ports.store import Where


def matching(pk: str, after: str | None, before: str | None, where: Where) -> dict[str, Any]:
    """The request's part that says which entries are meant. Two bounds make a closed range."""
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
    """The key condition: one on `sk` at most, so two bounds make a closed range."""
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
