"""The encoding of items for DynamoDB: typed attributes, and the keys `pk` and `sk`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from shared.errors import DataCorrupt
from shared.ports.store import Address, Item, ItemFilter, Value

Attribute: TypeAlias = dict[str, Any]
Attributes: TypeAlias = Mapping[str, Attribute]


def encode_address(address: Address) -> dict[str, Attribute]:
    """Return the key attributes of an item."""
    return {"pk": {"S": address.pk}, "sk": {"S": address.sk}}


def encode(value: Value) -> Attribute:
    """Return a value with its type."""
    match value:
        case str():
            attribute: Attribute = {"S": value}
        case bool():  # first, because bool is a subclass of int
            attribute = {"BOOL": value}
        case int():
            attribute = {"N": str(int(value))}
        case bytes():
            attribute = {"B": value}
        case None:
            attribute = {"NULL": True}
        case list():
            attribute = {"L": [encode(each) for each in value]}
        case _:
            attribute = {"M": encode_item(value)}
    return attribute


def encode_item(item: Item) -> dict[str, Attribute]:
    """Return all values with their types, by name."""
    return {name: encode(value) for name, value in item.items()}


def decode_item(attributes: Attributes) -> dict[str, Value]:
    """Return the item without its keys.

    Raises `DataCorrupt` for a type that `encode` never writes.
    """
    return {
        name: decode(attribute)
        for name, attribute in attributes.items()
        if name not in {"pk", "sk"}
    }


def decode(attribute: Attribute) -> Value:
    """Return a value without its type.

    Raises `DataCorrupt` for a type that `encode` never writes.
    """
    try:
        ((kind, content),) = attribute.items()
        return _DECODERS[kind](content)
    except (KeyError, ValueError) as error:
        raise DataCorrupt from error


def _as_is(value: Any) -> Any:
    return value


_DECODERS: Mapping[str, Callable[[Any], Value]] = {
    "NULL": lambda _: None,
    "BOOL": _as_is,
    "S": _as_is,
    "N": int,
    "B": _as_is,
    "L": lambda members: [decode(each) for each in members],
    "M": lambda members: {name: decode(each) for name, each in members.items()},
}


def matching(pk: str, after: str | None, before: str | None, where: ItemFilter) -> dict[str, Any]:
    """Return the part of a request that selects the rows. Two bounds make a closed range."""
    # `sk` can have only one term.
    match after, before:
        case None, None:
            range_ = ""
        case _, None:
            range_ = " AND #sk > :after"
        case None, _:
            range_ = " AND #sk < :before"
        case _:
            range_ = " AND #sk BETWEEN :after AND :before"
    names = {"#pk": "pk"} | ({"#sk": "sk"} if range_ else {})
    keys = {":pk": pk, ":after": after, ":before": before}
    values = {name: encode(value) for name, value in keys.items() if value is not None}
    filters = []
    for number, (path, value) in enumerate(where.equal.items()):
        parts = {f"#w{number}_{depth}": name for depth, name in enumerate(path.split("."))}
        names |= parts
        values[f":w{number}"] = encode(value)
        filters.append(f"{'.'.join(parts)} = :w{number}")
    if where.alive_at is not None:
        names["#expires"] = "expires"
        values[":alive_at"] = encode(where.alive_at)
        filters.append("(attribute_not_exists(#expires) OR #expires > :alive_at)")
    return {
        "KeyConditionExpression": f"#pk = :pk{range_}",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        **({"FilterExpression": " AND ".join(filters)} if filters else {}),
    }
