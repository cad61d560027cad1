"""The console in a real browser, on a real server, with data as a service has it.

How to write a journey
----------------------
A journey is a test marked `slow` in `test_journeys_<noun>.py` that uses a page as a person does::

    pytestmark = pytest.mark.slow


    def test_a_key_is_suspended(console: Console) -> None:
        \"\"\"F470a: ….\"\"\"
        console.open("#/keys")
        console.page.get_by_role("treeitem", name="Card desk").click()
        console.page.get_by_role("button", name="Suspend").click()
        expect(console.page.locator("#said")).to_contain_text("Suspended")
        assert console.world.get(f"keys/{console.world.id('Card desk')}")["status"] == "suspended"

- `console` is a tab in which an administrator has signed in. In `visitor` nobody has:
  `visitor.sign_in("reader")` signs in with another key of `plans.py`, `visitor.sign_in_by_link()`
  as the printed link does. `console.page` is the page of Playwright, and
  `console.panel("Action required")` a part of it by its heading. Look for roles and names, as a
  screen reader does, and never wait for time: `open` waits for `body[data-ready=keys]`, and
  `expect` (of `playwright.sync_api`) for what appears.
- `console.world` is the server: `get`, `post` and `call` talk to the API; `id` tells identifiers by
  the names in `plans.py`; `run_schedule` publishes what waits; `stop` lets the server end. Each
  test has a copy of the data for itself.
- It is 12:00 on 21 November 2026. `console.pass_time(minutes=95)` moves the clocks of the service
  and of the browser; `console.be_away(minutes=16)` also lets the page's timers go off.
- The module says what is seeded if it is not `plans.usual`::

    @pytest.fixture(scope="module")
    def plan() -> Plan:
        return plans.many_keys

- `console.check_looks("keys")` runs axe in light, dark and on a phone. Call it once a page, and
  `console.check_axe()` where a dialog is open.
- At its end, and at each `open`, a journey fails on a message on the browser's console, an error
  of a script, what the content security policy stopped, a request to another host, sideways
  scroll, what sticks out of its card, and if the key is in an address, in storage or in the
  document. The browser itself reports answers from 400 on: `console.expect_failures(403)` says that
  the journey causes these.
- `RESCIND_PICTURES=.build/console pytest -m slow tests/functions/console/test_journeys_keys.py`
  keeps the pictures of `check_looks` and of `console.keep_picture(name)` in that folder.

`CHROMIUM` names a browser; otherwise `chromium`, `chromium-browser` or `google-chrome` is used.
Without one, journeys are skipped as "no Chromium".
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.functions.console import plans, seeds
from tests.functions.console.seeds import Plan
from tests.functions.console.served import World, serving
from tests.functions.console.watched import Console
from tests.kit import browsers
from tests.kit.worlds import in_memory


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of this folder."""
    path = browsers.executable()
    if path is None:
        pytest.skip("no Chromium")
    with browsers.launched(path) as browser:
        yield browser


@pytest.fixture(scope="session")
def seeds_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the seeds of this run are, for all its processes."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "seeds"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def plan() -> Plan:
    """What the worlds of a module are seeded with; a module may have a fixture of its own."""
    return plans.usual


@pytest.fixture
def world(seeds_folder: Path, plan: Plan, tmp_path: Path) -> Iterator[World]:
    """A running server, with its own copy of the seed."""
    seed = seeds.found(plan, seeds_folder)
    with in_memory(tmp_path / "world"), serving(seed, tmp_path / "world" / "data") as world:
        yield world


@pytest.fixture
def visitor(chromium: Browser, world: World) -> Iterator[Console]:
    """The console in a tab, where nobody has signed in."""
    console = Console.visit(chromium, world)
    yield console
    console.check()
    console.page.context.close()


@pytest.fixture
def console(visitor: Console) -> Console:
    """The console in a tab, where an administrator has signed in."""
    visitor.sign_in()
    return visitor
