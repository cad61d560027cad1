"""The pages between a phone and a desktop, zoomed in, in both schemes, with few rows and many."""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from infra import openapi
from tests.functions.console import plans
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

_WIDTHS: Final = (390, 768, 1000, 1440)
_NAMES: Final = (
    *("W" * 255, plans.RTL, "審査部門の夜間当番が失効させた鍵" * 9, plans.MARKUP),
    *("edge-gw-eu-west-1-rack-2", "a", "é" * 60 + " " + "x" * 190),
)


def test_nothing_is_cut_in_any_width(console: Console) -> None:
    """F593a: From 720 pixels on, which are also 1440 at 200 %, nothing sticks out or is torn."""
    url = "https://hooks.example.com/rescind/of-the-desk-for-fraud-and-chargebacks"
    hook = console.world.post("webhooks", url=url, events=["*"])["id"]
    for name in (*_PAGES, "changes", "keys", "overview", "settings"):
        console.open(f"#/{name.replace('HOOK', hook)}")
        for width in (720, 900, 1000, 1440):
            console.page.set_viewport_size({"width": width, "height": 800})
            console.check()
            console.keep_picture(f"{name.replace('/', '-')}-{width}")


class _Noun(NamedTuple):
    """A table: the path of its list, its schema, and names in it."""

    path: str
    schema: str
    named: tuple[str, ...]
    more: Mapping[str, Any] = {}

    @property
    def list(self) -> str:
        return self.path.rpartition("/")[2].replace("-", "_")


# The tables of each page, in their order.
_PAGES: Final[dict[str, tuple[_Noun, ...]]] = {
    "revocations": (_Noun("revocations", "RevocationList", ("reason", "warrant_id")),),
    "audit": (_Noun("audit-logs", "AuditEntryList", ("actor_name", "actor")),),
    "lists": (
        _Noun("revocations/srl/versions", "SrlVersionList", ("key_id",)),
        _Noun("revocations/srl/keys", "SrlKeyList", ()),
    ),
    "people": (
        _Noun("people", "PersonList", ("name", "email", "issuer")),
        _Noun("approvals", "ApprovalList", ("requested_by", "decided_by", "reason")),
        _Noun("sessions", "SessionList", ("identity",)),
    ),
    "keys?flat=1": (_Noun("keys", "SigningKeyList", ("name",)),),
    "webhooks": (_Noun("webhooks", "WebhookList", ("url", "description")),),
    "webhooks/HOOK": (_Noun("webhooks/HOOK/deliveries", "DeliveryList", ("answer",)),),
    "api-keys": (_Noun("api-keys", "ApiKeyList", ("name",)),),
    "accounts": (_Noun("service-accounts", "ServiceAccountList", ("name", "email")),),
    "authorizers": (
        _Noun("authorizers", "AuthorizerList", ("name", "owner"), {"enforcement": "enforced"}),
    ),
}


@pytest.mark.parametrize("size", [0, 1, 21, 300, 10_000])
@pytest.mark.parametrize("plan", [plans.nothing], ids=["tables"])
def test_tables_keep_their_form(console: Console, size: int) -> None:
    """F1477a: With up to 10,000 rows of names of all kinds nothing is cut, in any look.

    The rows in view alone are in the document, and axe finds nothing.
    """
    page = console.page
    console.answer("**/v1/webhooks/HOOK", _EXAMPLES["Webhook"])
    counted = _EXAMPLES["FleetSummary"] | {"total": size, "enforced": size}
    console.answer("**/v1/authorizers/summary", counted | {"fail_closed": 0, "unknown": 0})
    for where, nouns in _PAGES.items():
        for noun in nouns:
            page.route(re.compile(rf"/v1/{noun.path}(\?|$)"), partial(_answer, noun, size))
        console.open(f"#/{where}")
        if size > 300:
            _load_all(page)
        for at in range(len(nouns)):
            table = page.locator(".sheet").nth(at)
            rows = table.locator(".lines .row")
            there = rows if size else table.locator(".nothing, .padded")
            expect(there.first).to_be_visible()
            assert rows.count() < 60
        for width in _WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                console.check()
                # Neither finds what the other would.
                if size == 21 and (width, scheme) in ((390, "dark"), (1440, "light")):
                    console.check_axe()
                name = nouns[0].path.replace("/", "-")
                console.keep_picture(f"{name}-{size}-{width}-{scheme}")
        for table in page.locator(".sheet:has(.row)").all() if size else []:
            table.locator(".scroll").evaluate("each => { each.scrollTop = each.scrollHeight }")
            last = table.get_by_role("table").get_attribute("aria-rowcount")
            expect(table.locator(f"[aria-rowindex='{last}']")).to_be_visible()
        console.check()


def _load_all(page: Page) -> None:
    expect(page.locator(".lines .row").first).to_be_visible()
    # The page of lists reads some by itself.
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    for more in page.get_by_role("button", name="Load all").all():
        more.click()
    expect(page.get_by_role("button", name=re.compile("Load|Stop"))).to_have_count(0)


def _answer(noun: _Noun, size: int, route: Route) -> None:
    """Answer with a page of this many rows, or with all, as the service has them."""
    query = parse_qs(urlsplit(route.request.url).query)
    start = int(query.get("cursor", ["0"])[0])
    end = min(size, start + 100) if "limit" in query else size
    rows = [_row(noun, number) for number in range(start, end)]
    cursor = str(end) if end < size else None
    route.fulfill(json={noun.list: rows, "total": size, "cursor": cursor})


def _row(noun: _Noun, number: int) -> dict[str, Any]:
    """The example of the API document, with names of all kinds."""
    (made,) = _EXAMPLES[noun.schema][noun.list][:1]
    for each in ("id", "index", "version", "key_id"):
        if isinstance(made.get(each), int):
            made = made | {each: 10_000 - number}
        elif each in made:
            made = made | {each: f"{made[each][:-5]}{number:05}"}
    names = {each: f"{_NAMES[(number + at) % 7]}-{number}" for at, each in enumerate(noun.named)}
    return {**made, **names, **noun.more}


_EXAMPLES: Final = {
    name: schema["examples"][0]
    for name, schema in json.loads(openapi.PATH.read_text())["components"]["schemas"].items()
    if "examples" in schema
}
