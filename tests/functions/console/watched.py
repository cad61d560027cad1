"""A page in the browser, as a person uses it, that is watched for what must never happen."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from tests.functions.console.served import World
from tests.kit import browsers
from tests.kit.processes import ROOT

# Where pictures are kept for people; without this, none are.
_PICTURES: Final = "RESCIND_PICTURES"
_SIZE: Final = (1280, 800)
_PHONE: Final = (390, 844)
LOOKS: Final = ("light", "dark", "phone")
# What the rules of WCAG 2.2, levels A and AA, are called in axe.
_RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")

_REPORT_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) =>
  reportViolation(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`));
"""
# Input at a time, before the clock is set to it: the console locks after 15 minutes without input,
# and looks for that every 5 seconds of real time.
_MOVE_AT: Final = """(at) => {
  const now = Date.now;
  Date.now = () => at;
  dispatchEvent(new Event("wheel"));
  Date.now = now;
}"""
_OVERFLOW: Final = """() => {
  const page = document.documentElement;
  if (page.scrollWidth <= page.clientWidth) return "";
  const wide = [...document.querySelectorAll("body *")].filter(
    (each) => each.getBoundingClientRect().right > page.clientWidth + 0.5);
  return `the page scrolls sideways, ${page.scrollWidth} > ${page.clientWidth}: ` +
    wide.slice(0, 5).map((each) => each.outerHTML.slice(0, 120)).join(" | ");
}"""
# What sticks out of its card, lies over another, ends without an ellipsis, is too small for a
# finger, and what a narrow column tears apart.
_GEOMETRY: Final = """() => {
  const away = ".unseen, svg, .goes-dark, .scrolled, .scroll, .facets";
  const isSeen = (each) =>
    each.checkVisibility({visibilityProperty: true}) && each.getClientRects().length > 0;
  const faults = [];
  const fault = (what, each) => faults.push(
    `${what}: ${each.outerHTML.replace(/<!--.*?-->/g, "").slice(0, 120)}`);
  const boxOf = (each) => each.getBoundingClientRect();
  for (const card of document.querySelectorAll(".panel, .head, .sheet, .banner, dialog[open]")) {
    const box = boxOf(card);
    for (const each of card.querySelectorAll("*")) {
      if (each.closest(away) || !isSeen(each)) continue;
      const {left, right} = boxOf(each);
      if (left < box.left - 0.5 || right > box.right + 0.5) fault("outside its card", each);
    }
  }
  // A name keeps its last letters.
  for (const each of document.querySelectorAll(".scroll .tag, .scroll .ended > :last-child")) {
    const cell = boxOf(each.closest("[role=cell]")), {left, right} = boxOf(each);
    if (left < cell.left - 0.5 || right > cell.right + 0.5) fault("cut", each);
  }
  const rows = ".scroll .row, .tools, .sheet-foot, .head, .actions, .facets, .hints";
  for (const row of document.querySelectorAll(rows)) {
    const parts = [...row.children].filter((each) => isSeen(each) && !each.matches(".unseen"));
    for (const [index, one] of parts.entries()) for (const other of parts.slice(index + 1)) {
      const [a, b] = [boxOf(one), boxOf(other)];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 0.5 && high > 0.5) fault("lies over its neighbour", one);
    }
  }
  // Only what is in a line of the cut element itself gets its ellipsis.
  const lineOf = (each) => {
    while (getComputedStyle(each).display.startsWith("inline")) each = each.parentElement;
    return each;
  };
  for (const each of document.querySelectorAll(".sheet *")) {
    const isOver = each.scrollWidth > each.clientWidth + 1 && isSeen(each);
    if (!isOver || getComputedStyle(each).overflowX !== "hidden") continue;
    if (each.matches(".unseen, svg, .group, .heads *, .sheet")) continue;
    const texts = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (texts.nextNode()) {
      range.selectNodeContents(texts.currentNode);
      const of = texts.currentNode.parentElement;
      const isBeyond = boxOf(range).right > boxOf(each).right + 1 && !of.closest(".unseen");
      const {textOverflow} = getComputedStyle(lineOf(of));
      if (isBeyond && textOverflow !== "ellipsis") fault("cut without an ellipsis", of);
    }
  }
  const kinds = "button, a, input, select, textarea";
  const targets = `:is(.sheet, .head, .popup, dialog[open]) :is(${kinds})`;
  for (const each of document.querySelectorAll(targets)) {
    // A link among words is as high as these.
    const isInText = each.matches("p a, dd a, li a, small a, [role=cell] a:not(.lead)");
    if (!isSeen(each) || isInText) continue;
    const {width, height} = boxOf(each.matches("input") && each.closest("label") || each);
    if (width < 24 || height < 24) fault(`${Math.round(width)} by ${Math.round(height)} px`, each);
  }
  return [...new Set(faults)].slice(0, 8).join(" | ");
}"""
# The faults that last: a table follows a new width in a later frame than the page does.
_WAIT_FOR_FORM: Final = f"""async () => {{
  const find = () => ({_OVERFLOW})() || ({_GEOMETRY})();
  for (let left = 250; left && find(); left--) {{
    await new Promise((resolve) => setTimeout(resolve, 20));
  }}
  return find();
}}"""
# All that can hold a key: the document with what was typed, storage of all kinds, the address.
_HELD: Final = """async () => {
const entries = (storage) => Array.from(
  {length: storage.length},
  (_, index) => [storage.key(index), storage.getItem(storage.key(index))]);
return {
  document: document.documentElement.outerHTML,
  fields: [...document.querySelectorAll("input, textarea")].map((each) => each.value),
  address: location.href,
  history: history.state,
  title: document.title,
  cookies: document.cookie,
  localStorage: entries(localStorage),
  sessionStorage: entries(sessionStorage),
  databases: await indexedDB.databases(),
  caches: await caches.keys(),
  window: window.name,
}}"""

# As the page keeps the session of a person in its tab.
_REMEMBER: Final = """(secret) => {
sessionStorage.setItem("rescind.session", secret);
sessionStorage.setItem("rescind.input", String(Date.now()));
}"""


@dataclass
class Console:
    """The console in a tab; `check` fails on what happened since it was opened."""

    page: Page
    world: World
    faults: list[str] = field(default_factory=list)
    # Beginnings of messages of the browser that this journey causes on purpose.
    expected: list[str] = field(default_factory=list)
    # Whether the tab keeps the secret of a session.
    remembers: bool = False
    # The host of an identity provider, to which the person may go. Its pages are not watched.
    elsewhere: str = ""

    @classmethod
    def visit(cls, browser: Browser, world: World, elsewhere: str = "") -> "Console":
        """Load the console in a tab of a new profile. Nobody is signed in."""
        width, height = _SIZE
        context = browser.new_context(
            viewport={"width": width, "height": height},
            locale="en-GB",
            timezone_id="UTC",
            reduced_motion="reduce",
            ignore_https_errors=bool(elsewhere),
        )
        console = cls(context.new_page(), world, elsewhere=elsewhere)
        console.watch()
        console.load()
        return console

    def watch(self) -> None:
        """Write down from now on what must not happen."""
        self.page.set_default_timeout(browsers.PATIENCE)
        self.page.clock.set_fixed_time(self.world.clock())
        self.page.on("console", self._take_message)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._take_request)
        self.page.expose_function("reportViolation", self._take_violation)
        self.page.add_init_script(_REPORT_VIOLATIONS)

    def load(self, where: str = "") -> None:
        """Load the console anew; whoever was signed in is not any more."""
        self.page.goto(f"{self.world.url}/{where}")

    def another_tab(self) -> "Console":
        """A second tab of the same profile, with the console in it."""
        page = self.page.context.new_page()
        console = replace(self, page=page)
        console.watch()
        console.load()
        return console

    def sign_in(self, name: str = "admin") -> None:
        """Type the API key of this name, and wait for the first page."""
        self.type_key(self.world.seed.secrets[name])
        self.wait("overview")

    def sign_in_by_link(self) -> str:
        """Open a one-time link, wait for the first page, and return the link."""
        link = self.world.link()
        self.page.goto(link)
        with self.page.expect_response("**/v1/token") as answered:
            self.page.get_by_role("button", name="Continue with the link").click()
        ticket, session = link.partition("=")[2], answered.value.json()["access_token"]
        self.world.seed.secrets |= {"ticket": ticket, "session": session}
        self.remembers = True
        self.wait("overview")
        return link

    def sign_in_as_person(self, name: str) -> None:
        """Load the console as after the sign-in that gave the session of this name."""
        self.remembers = True
        self.page.evaluate(_REMEMBER, self.world.seed.secrets[name])
        self.load()
        self.wait("overview")

    def panel(self, name: str) -> Locator:
        """The part of the page that has this heading."""
        heading = self.page.get_by_role("heading", name=name)
        return self.page.locator("section.panel").filter(has=heading)

    def type_key(self, secret: str) -> None:
        """Type a key, and press Enter."""
        entry = self.page.locator("input[type=password]")
        entry.fill(secret)
        entry.press("Enter")

    def open(self, where: str) -> None:
        """Go to a page, such as `#/keys`, and wait until it has drawn its data."""
        self.page.evaluate(
            """(where) => {
              if (location.hash === where) return;
              delete document.body.dataset.ready;
              location.hash = where;
            }""",
            where,
        )
        self.wait(where.removeprefix("#/").partition("?")[0].partition("/")[0])
        self.check()

    def wait(self, name: str) -> None:
        """Wait until the page of this name has drawn its data."""
        self.page.wait_for_selector(f"body[data-ready={json.dumps(name)}]", state="attached")

    def settle(self) -> None:
        """Wait until nothing is loaded any more. What is above a button moves it until then."""
        expect(self.page.locator("main .skeleton")).to_have_count(0)

    def set_browser_clock(self, at: datetime) -> None:
        """Set the browser's clock. The person is there, and no timer goes off by this."""
        self.page.evaluate(_MOVE_AT, at.timestamp() * 1000)
        self.page.clock.set_fixed_time(at)

    def pass_time(self, **by: float) -> None:
        """Move the clocks of the service and of the browser. The person is there meanwhile."""
        self.world.clock.advance(**by)
        self.set_browser_clock(self.world.clock())

    def be_away(self, **by: float) -> None:
        """Let time pass in which nothing is done; the page's timers that were due go off."""
        self.world.clock.advance(**by)
        self.page.clock.set_fixed_time(self.world.clock())
        self.page.clock.fast_forward(int(timedelta(**by).total_seconds() * 1000))

    def expect_failures(self, *statuses: int) -> None:
        """Do not mind that the browser reports answers with these; 0: there was none."""
        for status in statuses:
            end = f"the server responded with a status of {status}" if status else "net::ERR_"
            self.expected.append(f"Failed to load resource: {end}")

    def answer(self, path: str, body: Any) -> None:
        """Let the page get this in place of what the service answers at a path."""
        self.page.unroute(path)
        self.page.route(path, lambda route: route.fulfill(json=body))

    def act(self, row: str, action: str) -> None:
        """Choose what is done with the row of this name, from its menu."""
        self.page.get_by_role("button", name=f"Actions for {row}", exact=True).click()
        self.page.get_by_role("menuitem", name=action).click()

    def look(self, look: str) -> None:
        """Show the page as in `LOOKS`."""
        width, height = _PHONE if look == "phone" else _SIZE
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if look == "dark" else "light")

    def check_looks(self, name: str, looks: Iterable[str] = LOOKS) -> None:
        """In each look nothing runs over, axe finds nothing, and a picture is kept if wanted."""
        for look in looks:
            self.look(look)
            self.check()
            self.check_axe()
            self.keep_picture(f"{name}-{look}")
        self.look("light")

    def check_axe(self) -> None:
        """Fail if axe finds that the page as it is now breaks a rule of WCAG 2.2 AA."""
        found = Axe().run(self.page, options={"runOnly": {"type": "tag", "values": list(_RULES)}})
        lines = [
            f"{rule['id']}: {rule['help']}: {node['target']} {node['html'][:200]}"
            for rule in found.response["violations"]
            for node in rule["nodes"]
        ]
        assert not lines, "\n".join(lines)

    def keep_picture(self, name: str) -> None:
        """Keep a picture of the whole page, if `RESCIND_PICTURES` names a folder for it."""
        if _PICTURES not in os.environ:
            return
        self.photograph(picture(name))

    def photograph(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.page.viewport_size
        assert size is not None
        # Bars that are fixed to the window would be in the middle of a longer picture.
        height = self.page.evaluate("document.documentElement.scrollHeight")
        self.page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
        self.page.screenshot(path=path)
        self.page.set_viewport_size(size)

    def check(self) -> None:
        """Fail on all that was written down, on sideways scroll, and if the key is anywhere."""
        faults = self.page.evaluate(_WAIT_FOR_FORM)
        assert not faults, f"the page is not as it should be: {faults}"
        self._check_key()
        assert not self.faults, "\n".join(self.faults)

    def _check_key(self) -> None:
        held = self.page.evaluate(_HELD)
        if self.remembers:
            del held["sessionStorage"]
        held["all cookies"] = self.page.context.cookies()
        for place, text in held.items():
            for secret in self._secrets():
                assert secret not in json.dumps(text, ensure_ascii=False), f"a key is in {place}"

    def _secrets(self) -> Iterator[str]:
        for secret in self.world.seed.secrets.values():
            # A part of it, so that it is known also if it is not whole.
            yield secret[-24:]

    def _take_message(self, message: ConsoleMessage) -> None:
        is_elsewhere = self.elsewhere and self.world.url not in message.location["url"]
        if not is_elsewhere and not message.text.startswith(tuple(self.expected)):
            self.faults.append(f"console: {message.type}: {message.text} {message.location}")

    def _take_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if not request.is_navigation_request() and urlsplit(request.frame.url).netloc == (
            self.elsewhere or None
        ):
            return
        known = (urlsplit(self.world.url).netloc, self.elsewhere)
        if address.scheme != "data" and address.netloc not in known:
            self.faults.append(f"a request to another host: {request.url}")
        if any(secret in request.url for secret in self._secrets()):
            self.faults.append(f"a key in the address of a request: {address.path}")

    def _take_violation(self, what: str) -> None:
        self.faults.append(f"the content security policy stopped {what}")


def picture(name: str) -> Path:
    """The path of a picture, in a folder that exists."""
    folder = ROOT / os.environ[_PICTURES]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.png"
