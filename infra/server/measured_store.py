"""A store that measures each call of another one."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from infra.server.metrics import STORE_CONFLICTS, STORE_SECONDS, STORE_UNAVAILABLE
from shared.errors import ExpectationLost, Unavailable
from shared.ports import Ports
from shared.ports.store import wrapped


def measured(ports: Ports) -> Ports:
    """Return the ports with a store that measures its calls."""
    return replace(ports, store=wrapped(ports.store, _measured))


def _measured(verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
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
