"""One-time codes for the console, as the store keeps them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.errors import InvalidSettings
from shared.model.console_codes import SERVER
from shared.model.items import Table
from shared.operations.operator import console_codes
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.kit.worlds import Clock

_ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture(autouse=True)
def _server(ports: Ports) -> None:
    """A server takes codes."""
    console_codes.announce(ports, _ADDRESS)


def _code(ports: Ports, tenant: str = "local") -> str:
    return console_codes.link(ports, tenant).removeprefix(f"{_ADDRESS}/#code=")


def test_a_code_is_random_and_only_its_hash_is_kept(ports: Ports) -> None:
    """F450b: A code has 256 random bits; the store has no more of it than its hash."""
    codes = {_code(ports) for _ in range(8)}
    assert len(codes) == 8
    assert {len(code) for code in codes} == {43}
    stored = str(list(ports.store.everything(Table.KEYS)))
    assert not any(code in stored for code in codes)


def test_a_code_is_for_its_tenant_and_is_accepted_once(ports: Ports) -> None:
    """F450c: A code signs in to its tenant once, whichever other codes there are."""
    code, other = _code(ports, "acme"), _code(ports)
    assert console_codes.spend(ports, code) == "acme"
    assert console_codes.spend(ports, code) is None
    assert console_codes.spend(ports, f"{other}x") is None
    assert console_codes.spend(ports, other) == "local"


@pytest.mark.parametrize(("seconds", "accepted"), [(299, True), (300, False), (-1, False)])
def test_a_code_is_accepted_for_five_minutes(
    ports: Ports, clock: Clock, seconds: int, accepted: bool
) -> None:
    """F450d: A code ends after five minutes, also if the clock is set back."""
    code = _code(ports)
    clock.advance(seconds=seconds)
    assert (console_codes.spend(ports, code) == "local") is accepted
    # It was ended, whatever the clock says later.
    clock.advance(seconds=-seconds)
    assert console_codes.spend(ports, code) is None


def test_of_many_at_once_one_is_accepted(ports: Ports) -> None:
    """F450e: Of several that use a code at the same moment, one is accepted."""
    for _ in range(5):
        code, together = _code(ports), threading.Barrier(4)

        def use(code: str = code, together: threading.Barrier = together) -> str | None:
            together.wait()
            return console_codes.spend(ports, code)

        with ThreadPoolExecutor(4) as pool:
            used = [each.result() for each in [pool.submit(use) for _ in range(4)]]
        assert used.count("local") == 1


def test_without_a_server_there_is_no_link(ports: Ports) -> None:
    """No link is made if no server is known that takes codes."""
    ports.store.write(Delete(SERVER, Expect.PRESENT))
    with pytest.raises(InvalidSettings, match="No server"):
        console_codes.link(ports, "local")
