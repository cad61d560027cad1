"""Bodies of requests for tables of tests."""

from typing import Any


def variants(beside: dict[str, Any], name: str, *values: Any) -> list[dict[str, Any]]:
    """Bodies with each of these values for the field `name`."""
    return [beside | {name: value} for value in values]
