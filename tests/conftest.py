"""Fixtures that every room's tests share."""

import asyncio
import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from shared.operations.base import operation
from shared.ports import Ports
from tests.engines.worlds import chosen
from tests.infra.following import Server
from tests.kit import surroundings
from tests.kit.api import Instance, Tenant, serve
from tests.kit.worlds import Clock, in_memory

surroundings.forget()
surroundings.keep_files_in_memory()
surroundings.keep_compiled_modules()
surroundings.wait_for_answers()
surroundings.trust_no_public_authority()

# Every test fails in which a secret gets out.
pytest_plugins = ["tests.leaks"]

# Here all items of a write are visible at once.
operation.PACING = replace(operation.PACING, in_flight=0)

# A busy machine is no fault of the code, and chance must not decide whether a change lands: the
# examples are the same in each run, except with `--hypothesis-profile random`.
settings.register_profile("random", deadline=None, derandomize=False)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")

# Seconds after which a test of this mark has failed; for any other, pyproject.toml says so.
_PATIENCE = {"slow": 1800, "long": 4 * 3600}


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for the main thread."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def has_loop(loop: asyncio.AbstractEventLoop) -> None:
    """The main thread has a loop, as on Lambda, also after a test that called `asyncio.run`."""
    asyncio.set_event_loop(loop)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that are slow, and give the tests that take long more time."""
    for item in items:
        if (found := item.get_closest_marker("slow_on")) and _is_of(item, found.args):
            item.add_marker("slow")
        for mark, seconds in _PATIENCE.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.timeout(seconds))


def _is_of(item: pytest.Item, cases: tuple[str, ...]) -> bool:
    """Return whether the parameters of a test in brackets are of one of the cases."""
    name = item.name.partition("[")[2].removesuffix("]")
    parts = [name, *name.split("-")]
    return any(case in parts or name.startswith(f"{case}-") for case in cases)


def pytest_collection_finish() -> None:
    """Leave the tests out of garbage collection: there are thousands, and all stay to the end."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests found out for whoever runs them, such as the figures of the ratchet."""
    for report in chain.from_iterable(terminalreporter.stats.values()):
        for title, lines in getattr(report, "user_properties", ()):
            if getattr(report, "when", None) == "call":
                terminalreporter.write_sep("-", title)
                terminalreporter.write_line(lines)


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """A command makes its files private; run in this process, it must not do so for later tests."""
    before = os.umask(0o077)
    os.umask(before)
    yield
    assert os.umask(before) == before


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    with in_memory(tmp_path / "blobs"), chosen(tmp_path, clock) as ports:
        yield ports


@pytest.fixture
def http(ports: Ports) -> Instance:
    return serve(ports)


@pytest.fixture
def tenant(ports: Ports, http: Instance) -> Tenant:
    return Tenant(ports, http, handle="acme")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A tenant for all tests of a module whose requests are refused or independent."""
    with chosen(tmp_path_factory.mktemp("standing"), Clock()) as ports:
        yield Tenant(ports, serve(ports), handle="acme")


@pytest.fixture
def refilled(standing: Tenant) -> None:
    """A full bucket of the standing tenant, for requests that cost many tokens (AUTH-14)."""
    clock: Any = standing.ports.now
    clock.advance(seconds=5)


@pytest.fixture
def other_tenant(ports: Ports, http: Instance) -> Tenant:
    return Tenant(ports, http, handle="globex")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on this machine, that clients follow."""
    server = Server(tmp_path / "data")
    try:
        yield server
    finally:
        server.group.kill()
