"""The encoding of items for DynamoDB: attributes with types, and the keys `pk` and `sk`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from shared.errors import Corrupt
from shared.ports.store import Address, Item, Value

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
    """Return the item without its keys. Raises `Corrupt` for a type that `encode` never writes."""
    return {
        name: decode(attribute)
        for name, attribute in attributes.items()
        if name not in {"pk", "sk"}
    }


def decode(attribute: Attribute) -> Value:
    """Return a value without its type. Raises `Corrupt` for a type that `encode` never writes."""
    try:
        ((kind, held),) = attribute.items()
        return _DECODERS[kind](held)
    except (KeyError, ValueError) as error:
        raise Corrupt from error


def _as_is(held: Any) -> Any:
    return held


def _decode_list(held: list[Attribute]) -> list[Value]:
    return [decode(each) for each in held]


def _decode_map(held: Attributes) -> dict[str, Value]:
    return {name: decode(each) for name, each in held.items()}


_DECODERS: Mapping[str, Callable[[Any], Value]] = {
    "NULL": lambda _: None,
    "BOOL": _as_is,
    "S": _as_is,
    "N": int,
    "B": _as_is,
    "L": _decode_list,
    "M": _decode_map,
}
