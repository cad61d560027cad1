"""What the console takes: its first load and paint, and 10,000 authorizers in a real browser.

The processor time is that of the page's own thread, as the browser counts it.
"""

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Final

from playwright.sync_api import Browser, CDPSession, Page, Response

from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.scratch import scratch
from tests.functions.console import plans, seeds
from tests.functions.console.served import World, serving
from tests.functions.console.watched import Console
from tests.kit import browsers
from tests.kit.worlds import in_memory

_ROUNDS: Final = 9
_BYTES_MAX: Final = 38_000
_REQUESTS_MAX: Final = 13
_HEAP_MAX: Final = 8
_ELEMENTS_MAX: Final = 900
_FILTER_MAX: Final = 120
_SORT_MAX: Final = 200
# A word that a tenth of the names has, as it is typed at once.
_FILTER: Final = """(word) => { const field = document.querySelector(".search input");
  field.value = word; field.dispatchEvent(new Event("input", {bubbles: true})); }"""
_SORT: Final = "() => document.querySelector('[role=columnheader] .sorter').click()"
_DRAWN: Final = "() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))"


def run(plan: seeds.Plan = plans.huge_fleet, rounds: int = _ROUNDS) -> Iterator[Row]:
    """The first page against a bare one of the same server, and a table of 10,000 rows."""
    path = browsers.executable()
    if path is None:
        raise NotMeasured("no Chromium")
    progress("10,000 authorizers")
    with scratch() as folder, browsers.launched(path) as browser:
        seed = seeds.found(plan, folder)
        with in_memory(folder / "world"), serving(seed, folder / "world" / "data") as world:
            yield from _first(browser, world, rounds)
            yield from _table(Console.visit(browser, world), rounds)


def _first(browser: Browser, world: World, rounds: int) -> Iterator[Row]:
    sizes: dict[str, int] = {}
    with browser.new_context() as context:
        page = context.new_page()
        responses: list[Response] = []

        def take(response: Response) -> None:
            responses.append(response)

        page.on("response", take)
        page.goto(world.url)
        page.wait_for_selector("body[data-ready=door]", state="attached")
        for each in responses:
            each.finished()
            sizes[each.url] = each.request.sizes()["responseBodySize"]
    yield Row(
        "console, first load", sum(sizes.values()) / 1000, "kB", goal=f"≤ {_BYTES_MAX // 1000}"
    )
    yield Row("console, requests of the first load", len(sizes), "", goal=f"≤ {_REQUESTS_MAX}")
    sides = [
        (_painted(browser, world.url), _painted(browser, f"{world.url}/console/none"))
        for _ in range(rounds)
    ]
    ours, theirs = zip(*sides, strict=True)
    yield compared("console, first paint", ours, "a bare page", theirs, unit=("ms", 1000))


def _painted(browser: Browser, address: str) -> float:
    """The seconds until the first text of a page in a new profile."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address, wait_until="commit")
        return float(page.evaluate(browsers.PAINTED)) / 1000


def _table(console: Console, rounds: int) -> Iterator[Row]:
    page, devtools = console.page, console.page.context.new_cdp_session(console.page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    console.expect_failures(429)  # The 100 calls for all rows use up what may be asked at once.
    console.sign_in()
    console.open("#/settings")
    before = _heap(devtools)
    console.open("#/authorizers")
    page.wait_for_selector(".lines .row")
    yield Row(
        "console, heap of 10,000 rows",
        (_heap(devtools) - before) / 2**20,
        "MiB",
        goal=f"≤ {_HEAP_MAX}",
    )
    elements = page.evaluate("document.querySelectorAll('*').length")
    yield Row("console, elements of 10,000 rows", elements, "", goal=f"≤ {_ELEMENTS_MAX}")
    words = ["kiosk", ""]
    yield _taken(
        page,
        devtools,
        "filtered",
        _FILTER_MAX,
        rounds,
        lambda number: page.evaluate(_FILTER, words[number % 2]),
    )
    yield _taken(page, devtools, "sorted", _SORT_MAX, rounds, lambda _: page.evaluate(_SORT))
    yield _kept(console)
    console.check()


def _taken(
    page: Page,
    devtools: CDPSession,
    what: str,
    most: int,
    rounds: int,
    act: Callable[[int], object],
) -> Row:
    """How long it takes from an act to the frame with what it changed."""
    walls, cpus = [], []
    for number in range(rounds):
        started, busy = perf_counter(), _busy(devtools)
        act(number)
        page.evaluate(_DRAWN)
        cpus.append(_busy(devtools) - busy)
        walls.append(perf_counter() - started)
    wall, cpu = median(walls) * 1000, median(cpus) * 1000
    return Row(f"console, 10,000 rows {what}", wall, "ms", goal=f"CPU ≤ {most} ms", cpu=cpu)


def _kept(console: Console) -> Row:
    """How many of five polls leave the field that is typed in, and its caret, as they are."""
    page = console.page
    field = page.get_by_role("searchbox")
    field.fill("edge")
    field.evaluate("(each) => { each.setSelectionRange(1, 3); each.mine = 1 }")
    kept = 0
    for _ in range(5):
        # The clock of the service stands still: it grants no further requests by itself.
        console.pass_time(seconds=30)
        page.wait_for_event(
            "response", lambda each: each.url.endswith("/summary") and each.status < 400
        )
        page.evaluate(_DRAWN)
        script = (
            "(({mine, selectionStart: from}) => mine === 1 && from === 1)(document.activeElement)"
        )
        kept += bool(page.evaluate(script))
    return Row("console, polls of five that leave focus and caret", kept, "", goal="5")


def _busy(devtools: CDPSession) -> float:
    """The processor seconds that the page's thread has taken."""
    return _metric(devtools, "TaskDuration")


def _heap(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    return _metric(devtools, "JSHeapUsedSize")


def _metric(devtools: CDPSession, name: str) -> float:
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == name))
