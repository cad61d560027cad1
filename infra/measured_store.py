"""A store that measures each call of another one."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, cast

from infra.local_metrics import STORE_CONFLICTS, STORE_SECONDS, STORE_UNAVAILABLE
from shared.errors import ExpectationLost, Unavailable
from shared.ports import Ports
from shared.ports.store import Store


def measured(ports: Ports) -> Ports:
    """Return the ports with a store that measures its calls."""
    return replace(ports, store=cast("Store", _Measured(ports.store)))


class _Measured:
    """Has the methods of a store, whatever they are."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Now: from Python 3.12 on, `isinstance` with a protocol does not ask `__getattr__`.
        for verb in dir(store):
            if not verb.startswith("_") and callable(call := getattr(store, verb)):
                setattr(self, verb, _measured(verb, call))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return found if name.startswith("_") else _measured(name, found)


def _measured(verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def measured_call(*args: Any, **kwargs: Any) -> Any:
        with _watched(verb):
            found = call(*args, **kwargs)
        return _steps(verb, found) if isinstance(found, Iterator) else found

    return measured_call


def _steps(verb: str, rows: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows. The time in which the reader uses them is not measured."""
    seconds, ended = 0.0, object()
    try:
        while True:
            began = time.perf_counter()
            try:
                with _failures(verb):
                    row = next(rows, ended)
            finally:
                seconds += time.perf_counter() - began
            if row is ended:
                return
            yield row
    finally:
        STORE_SECONDS.labels(verb).observe(seconds)


@contextmanager
def _watched(verb: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        with _failures(verb):
            yield
    finally:
        STORE_SECONDS.labels(verb).observe(time.perf_counter() - began)


@contextmanager
def _failures(verb: str) -> Iterator[None]:
    try:
        yield
    except ExpectationLost:
        STORE_CONFLICTS.inc()
        raise
    except Unavailable:
        STORE_UNAVAILABLE.labels(verb).inc()
        raise
