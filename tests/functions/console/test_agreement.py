"""What the pages say of authorizers is one thing, whatever happens to them."""

import re
from collections import Counter
from random import Random
from typing import Any, Final

import pytest

from tests.functions.console import fleet, plans
from tests.functions.console.served import World
from tests.functions.console.watched import Console

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("plan", [plans.nothing])]

_STEPS: Final = 200
_SEED: Final = 1431
# Asks now for what the pages count, and resolves when they say what is expected.
_AGREES: Final = """async ([live, paths, expected]) => {
  const {retry} = await import(live);
  const text = (node) => node?.textContent.replace(/\\s+/g, " ").trim() ?? "";
  const number = (words) => Number(/\\d[\\d,]*/.exec(words)?.[0].replace(",", "") ?? 0);
  const all = (path) => [...document.querySelectorAll(path)].map(text);
  const groups = () => Object.fromEntries(all(".scroll .group").map((each) =>
    [each.match(/^\\D+/)[0].trim(), number(each)]));
  const shown = () => document.body.dataset.page === "changes"
    ? {held: all(".stages h3").at(-1)?.match(/\\d+/g)?.map(Number) ?? [], groups: groups()}
    : document.body.dataset.page === "overview"
    ? {badge: number(text(document.querySelector("a[data-page=authorizers] .waits"))),
       figures: all(".figures a").slice(0, 2).map((each) => number(each.replace(/^\\D+/, ""))),
       said: number(text(document.querySelector(".head .state")))}
    : {badge: number(text(document.querySelector("a[data-page=authorizers] .waits"))),
       said: text(document.querySelector(".head p")).match(/\\d+/g)?.map(Number) ?? [],
       rows: [...document.querySelectorAll(".lines .row")].length,
       groups: groups()};
  // The other tab may have brought the news already.
  if (JSON.stringify(shown()) !== JSON.stringify(expected)) paths.forEach(retry);
  const until = performance.now() + 8000;
  for (;;) {
    const found = JSON.stringify(shown());
    if (found === JSON.stringify(expected) || performance.now() > until) return found;
    await new Promise(requestAnimationFrame);
  }
}"""
_SUMMARY: Final = "/v1/authorizers/summary"
_ALL: Final = "/v1/authorizers?include=enforcement"
_GROUPS: Final = {
    "unknown": "May accept revoked warrants",
    "fail_closed": "Failing closed",
    "enforced": "Up to date",
}


class _Fleet:
    """Authorizers of a world, to which things happen."""

    def __init__(self, console: Console, tabs: list[Console]) -> None:
        self.world, self.tabs = console.world, tabs
        self.random = Random(_SEED)
        self.ids: list[str] = []
        self.revoked: list[Any] = []
        made = self.world.post("api-keys", name="edge", scopes=["authorizer"])
        self.world.seed.secrets["edge"] = made["key"]
        self.key = self.world.post("keys", name="Root", type="root")["id"]
        for _ in range(4):
            self.register()
        # Before the first, the overview has steps in the place of numbers.
        self.revoke()
        self.publish()

    def step(self) -> str:
        """Let one thing happen; its name."""
        weights = {
            self.report: 6, self.revoke: 3, self.publish: 3, self.wait: 3,
            self.register: 1, self.cut: 1, self.rotate: 1, self.unrevoke: 1,
        }  # fmt: skip
        (chosen,) = self.random.choices([*weights], [*weights.values()])
        chosen()
        return chosen.__name__

    def register(self) -> None:
        if len(self.ids) < 8:
            name = f"gate-{self.random.random()}"
            self.ids.append(fleet.register(self.world, name))

    def report(self) -> None:
        newest = self.world.get("authorizers/summary")["sequence"] or 0
        fleet.beat(
            self.world,
            self.random.choice(self.ids),
            sequence=max(0, newest - self.random.choice([0, 0, 0, 1, 3])),
            max_staleness=self.random.choice([30, 300, 3600]),
            fail_open=self.random.random() < 0.2,
        )

    def revoke(self) -> None:
        warrant = f"svc_wrt_a-{self.random.random()}".replace(".", "")
        self.revoked.append(self.world.post("revocations", warrant_id=warrant, reason="one"))

    def unrevoke(self) -> None:
        if len(self.revoked) > 1:
            self.world.call("DELETE", f"revocations/{self.revoked.pop()['id']}")

    def publish(self) -> None:
        self.world.run_schedule()

    def cut(self) -> None:
        if len(self.ids) > 3:
            self.world.call("DELETE", f"authorizers/{self.ids.pop(0)}")

    def rotate(self) -> None:
        self.world.post(f"keys/{self.key}/rotate")

    def wait(self) -> None:
        self.world.clock.advance(seconds=self.random.choice([20, 90, 300]))
        for tab in self.tabs:
            tab.pass_time()
            # The person is there.
            tab.page.keyboard.press("Shift")


def _expected(world: World, path: str) -> dict[str, dict[str, Any]]:
    """What each page has to show, by the list of authorizers and the summary, which agree."""
    listed = world.get("authorizers?include=enforcement&limit=100")["authorizers"]
    counted, proofs = (
        world.get("authorizers/summary"),
        Counter(each["enforcement"] for each in listed),
    )
    assert counted["total"] == len(listed)
    assert {name: counted[name] for name in _GROUPS} == {name: proofs[name] for name in _GROUPS}
    unknown, enforced, fail_closed = counted["unknown"], counted["enforced"], counted["fail_closed"]
    said = [unknown, len(listed), enforced, counted["sequence"] or 0, fail_closed]
    return {
        "overview": {"badge": unknown, "figures": [unknown, enforced], "said": unknown},
        "authorizers": {
            "badge": unknown,
            "said": said if unknown else said[1:],
            "rows": len(listed),
            "groups": {_GROUPS[each]: proofs[each] for each in _GROUPS if proofs[each]},
        },
        "changes": _of_change(world.get(path)),
    }


def _of_change(change: dict[str, Any]) -> dict[str, Any]:
    """What the room of a change has to show."""
    counts = change["authorizers"]
    enforced, registered = counts["enforced"], counts["total"]
    groups = {"May accept it": counts["unknown"], "Failing closed": counts["fail_closed"]}
    return {
        "held": [enforced, registered] if 0 < enforced < registered else [registered],
        "groups": {name: size for name, size in groups.items() if size},
    }


def test_all_pages_count_the_same_after_each_step(console: Console) -> None:
    """F1431a: After each of 200 random steps fleet, summary, overview and room count the same."""
    other = console.another_tab()
    other.sign_in()
    room = console.another_tab()
    room.sign_in()
    tabs = {"overview": console, "authorizers": other, "changes": room}
    fleet = _Fleet(console, [*tabs.values()])
    other.open("#/authorizers")
    path = f"changes/{fleet.revoked[0]['id']}"
    room.open(f"#/{path}")
    source = console.page.evaluate("document.querySelector('script[src]').src")
    live = re.sub("app.js$", "store.js", source)
    seen: Counter[str] = Counter()
    for number in range(_STEPS):
        step = fleet.step()
        for name, expected in _expected(console.world, path).items():
            shown = tabs[name].page.evaluate(
                _AGREES, [live, [_SUMMARY, _ALL, f"/v1/{path}"], expected]
            )
            wanted = tabs[name].page.evaluate("JSON.stringify", expected)
            assert shown == wanted, f"step {number}, {step}, {name}"
            seen.update(each for each in _GROUPS if _GROUPS[each] in shown)
    assert min(seen[each] for each in _GROUPS) > _STEPS / 10, seen
    other.check()
    room.check()
