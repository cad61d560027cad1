"""The pages between a phone and a desktop, zoomed in, in both schemes, with few rows and many."""

import json
import re
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

from infra import openapi
from tests.functions.console import plans
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

_PAGES = (
    *("overview", "keys", "revocations", "lists", "authorizers", "api-keys", "accounts"),
    *("people", "audit", "webhooks", "settings"),
)
_WIDTHS: Final = (390, 768, 1000, 1440)
_NAMES: Final = (
    *("W" * 255, plans.RTL, "審査部門の夜間当番が失効させた鍵" * 9, plans.MARKUP),
    *("edge-gw-eu-west-1-rack-2", "a", "é" * 60 + " " + "x" * 190),
)


def test_nothing_is_cut_in_any_width(console: Console) -> None:
    """F593a: From 720 pixels on, which are also 1440 at 200 %, nothing sticks out or is torn."""
    url = "https://hooks.example.com/rescind/of-the-desk-for-fraud-and-chargebacks"
    console.world.post("webhooks", url=url, events=["*"])
    for name in _PAGES:
        console.open(f"#/{name}")
        console.check_widths(name)


class _Noun(NamedTuple):
    """A table: its page, the path of its list, the list's name, its schema, and names in it."""

    page: str
    path: str
    list: str
    schema: str
    named: tuple[str, ...]


_NOUNS: Final = (
    _Noun("revocations", "revocations", "revocations", "RevocationList", ("reason", "warrant_id")),
    _Noun("audit", "audit-logs", "audit_logs", "AuditEntryList", ("actor_name", "actor")),
    _Noun("lists", "revocations/srl/versions", "versions", "SrlVersionList", ("key_id",)),
    _Noun("people", "people", "people", "PersonList", ("name", "email", "issuer")),
    _Noun("keys?flat=1", "keys", "keys", "SigningKeyList", ("name",)),
    _Noun("webhooks", "webhooks", "webhooks", "WebhookList", ("url", "description")),
    _Noun("api-keys", "api-keys", "api_keys", "ApiKeyList", ("name",)),
    _Noun("accounts", "service-accounts", "service_accounts", "ServiceAccountList", ("email",)),
)


@pytest.mark.parametrize("size", [0, 1, 21, 300, 10_000])
@pytest.mark.parametrize("plan", [plans.nothing], ids=["tables"])
def test_tables_keep_their_form(console: Console, size: int) -> None:
    """F1477a: With up to 10,000 rows of names of all kinds nothing is cut, in any look.

    The rows in view alone are in the document, and axe finds nothing.
    """
    page = console.page
    for noun in _NOUNS:
        page.route(re.compile(rf"/v1/{noun.path}\?"), partial(_answer, noun, size))
        console.open(f"#/{noun.page}")
        table = page.locator(".sheet").first
        if size > 300:
            _load_all(console)
        rows = table.locator(".lines .row")
        expect(rows.first if size else table.locator(".nothing, .padded").first).to_be_visible()
        assert rows.count() < 60
        for width in _WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                console.check()
                if size == 21 and width in (390, 1440):
                    console.check_axe()
                console.keep_picture(f"{noun.path.replace('/', '-')}-{size}-{width}-{scheme}")
        if size:
            table.locator(".scroll").evaluate("each => { each.scrollTop = each.scrollHeight }")
            last = table.get_by_role("table").get_attribute("aria-rowcount")
            expect(table.locator(f"[aria-rowindex='{last}']")).to_be_visible()
            console.check()


def _load_all(console: Console) -> None:
    more = console.page.get_by_role("button", name="Load all")
    if more.count():
        more.first.click()
        expect(console.page.get_by_text("10,000 rows").first).to_be_visible()


def _answer(noun: _Noun, size: int, route: Route) -> None:
    """Answer with a page of this many rows, as the service has them."""
    query = parse_qs(urlsplit(route.request.url).query)
    start = int(query.get("cursor", ["0"])[0])
    end = min(size, start + 100)
    rows = [_row(noun, number) for number in range(start, end)]
    cursor = str(end) if end < size else None
    route.fulfill(json={noun.list: rows, "total": size, "cursor": cursor})


def _row(noun: _Noun, number: int) -> dict[str, Any]:
    """The example of the API document, with names of all kinds."""
    (made,) = _EXAMPLES[noun.schema][noun.list][:1]
    names = {each: f"{_NAMES[(number + at) % 7]}-{number}" for at, each in enumerate(noun.named)}
    row = {**made, **names}
    for each in ("id", "index", "version"):
        if each in made:
            is_number = isinstance(made[each], int)
            row[each] = 10_000 - number if is_number else f"{made[each][:-5]}{number:05}"
    return row


_EXAMPLES: Final = {
    name: schema["examples"][0]
    for name, schema in json.loads(openapi.PATH.read_text())["components"]["schemas"].items()
    if "examples" in schema
}
