"""Ports of which a part is down, whatever is asked of it and however often."""

from collections.abc import Callable
from typing import Any

from shared.ports.store import Store
from tests.kit.intercepted import Call, Intercepted, OneByOne

# Says of a verb and a partition whether that call breaks.
Fails = Callable[[str, str], bool]


def on_authentication(verb: str, pk: str) -> bool:
    """The read that decides whether a key opens."""
    return pk.startswith("api-key#")


def behind_the_gate(verb: str, pk: str) -> bool:
    """Every read but that one."""
    return verb != "write" and not on_authentication(verb, pk)


def breaking(store: Store, error: BaseException, fails: Fails) -> Any:
    """A store that raises `error` if `fails` says so, and else hands on what it is asked."""

    def around(call: Call) -> Any:
        if any(fails(call.verb, pk) for pk in _partitions(call)):
            raise error
        return call()

    return OneByOne(store, around)


def down(error: BaseException) -> Any:
    """A port that raises `error` whatever is asked of it."""

    def around(_call: Call) -> Any:
        raise error

    return Intercepted(None, around)


def _partitions(call: Call) -> list[str]:
    """The partitions that a call of a store is about."""
    match call.verb:
        case "write":
            return [change.address.pk for change in call.arguments]
        case "get_many":
            return [key.pk for key in call.arguments[0]]
    return [call.arguments[0].pk]
