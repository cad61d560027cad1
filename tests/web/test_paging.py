"""Lists: pages, cursors, limits and totals (API-19 to API-22)."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from shared.model.callers import Caller, Scope
from shared.web.paging import CursorCodec
from tests.kit.api import Tenant
from tests.kit.asgi import bearer, send


@dataclass(frozen=True)
class List:
    """A list endpoint: where it is, what its entries are under, how to add and remove one."""

    path: str
    entries: str
    add: Callable[[Tenant], str]

    def page(self, tenant: Tenant, **query: Any) -> Any:
        parameters = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        return tenant.admin.get(f"{self.path}?{parameters}" if query else self.path)

    def ids(self, page: Any) -> list[str]:
        return [entry["id"] for entry in page.json()[self.entries]]

    def remove(self, tenant: Tenant, identifier: str) -> None:
        assert tenant.admin.delete(f"{self.path}/{identifier}").status_code == 204


KEYS = List("/v1/api-keys", "api_keys", lambda tenant: tenant.client(Scope.READ_ONLY).key_id)
REVOCATIONS = List(
    "/v1/revocations", "revocations", lambda tenant: tenant.revoke(tenant.ports.new_id("wrt"))
)
EACH = pytest.mark.parametrize("each", [KEYS, REVOCATIONS], ids=lambda each: each.entries)


def walk(each: List, tenant: Tenant, *, limit: int, between: Callable[[], Any] = int) -> list[str]:
    """The identifiers of all pages, with something done between each page and the next."""
    seen: list[str] = []
    query: dict[str, Any] = {"limit": limit}
    while True:
        page = each.page(tenant, **query)
        assert page.status_code == 200
        seen += each.ids(page)
        if page.json()["cursor"] is None:
            return seen
        query["cursor"] = page.json()["cursor"]
        between()


def refused(answer: Any, name: str) -> None:
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "invalid_request"
    assert name in answer.json()["error"]["message"]


def first_cursor(each: List, tenant: Tenant) -> str:
    """The cursor after the newest of at least two entries."""
    each.add(tenant)
    each.add(tenant)
    return str(each.page(tenant, limit=1).json()["cursor"])


# --- walks ---


@EACH
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 7, 100])
def test_a_walk_returns_each_entry_once(tenant: Tenant, each: List, limit: int) -> None:
    """F11: all pages together hold every entry once, newest first, whatever their size."""
    there = each.ids(each.page(tenant, limit=100))
    made = [each.add(tenant) for _ in range(6 - len(there))]
    assert walk(each, tenant, limit=limit) == [*reversed(made), *there]


@EACH
def test_a_page_is_full_and_the_last_has_no_cursor(tenant: Tenant, each: List) -> None:
    """API-19: A page has as many entries as its limit, newest first, and the last has no cursor."""
    for _ in range(6 - len(each.ids(each.page(tenant)))):
        each.add(tenant)
    for limit, sizes in ((2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (5, [5, 1])):
        query: dict[str, Any] = {"limit": limit}
        for size in sizes:
            page = each.page(tenant, **query).json()
            assert len(page[each.entries]) == size
            assert page["total"] == 6
            query["cursor"] = page["cursor"]
        assert query["cursor"] is None


@EACH
def test_a_walk_sees_what_stays(tenant: Tenant, each: List) -> None:
    """API-22, F11: A walk returns an entry that exists throughout the walk exactly once."""
    stays = [each.add(tenant) for _ in range(5)]
    goes: list[str] = []

    def between() -> None:
        if goes:
            each.remove(tenant, goes.pop())
        goes.append(each.add(tenant))

    seen = walk(each, tenant, limit=2, between=between)
    assert [identifier for identifier in seen if identifier in stays] == stays[::-1]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    "position", ["x" * 1025, "svc_rev_\0", "\U0010ffff", "a b", "a\n", "é"], ids=ascii
)
def test_a_forged_position_is_refused(standing: Tenant, position: str) -> None:
    """F88a: The service refuses a cursor whose checksum is valid and whose position is false."""
    caller = Caller(standing.id, "", ())
    pages = CursorCodec(caller, None, "revocations")
    forged = pages.cursor_after(position)
    refused(REVOCATIONS.page(standing, cursor=forged), "cursor")
    likely = pages.cursor_after("svc_rev_0")
    assert REVOCATIONS.page(standing, cursor=likely).status_code == 200


@EACH
def test_a_cursor_outlives_its_entry(tenant: Tenant, each: List) -> None:
    """F11f: A cursor continues after the entry at its position is deleted."""
    made = [each.add(tenant) for _ in range(4)]
    page = each.page(tenant, limit=2)
    assert each.ids(page) == made[:1:-1]
    each.remove(tenant, made[2])
    again = [each.page(tenant, limit=2, cursor=page.json()["cursor"]) for _ in range(2)]
    assert each.ids(again[0]) == made[1::-1]
    assert again[0].json() == again[1].json()


@EACH
def test_the_total_follows_every_change(tenant: Tenant, each: List) -> None:
    """API-21: `total` counts all entries after each creation and each deletion."""
    total = each.page(tenant).json()["total"]
    made = []
    for number in range(1, 4):
        made.append(each.add(tenant))
        assert each.page(tenant, limit=1).json()["total"] == total + number
    for number in range(2, -1, -1):
        each.remove(tenant, made.pop())
        assert each.page(tenant, limit=1).json()["total"] == total + number


# --- cursors ---


@EACH
def test_the_cursor_of_another_tenant_is_refused(
    tenant: Tenant, other_tenant: Tenant, each: List
) -> None:
    """API-20, F11a, S2: The service refuses the cursor of another tenant with 400."""
    refused(each.page(tenant, cursor=first_cursor(each, other_tenant)), "cursor")


def test_the_cursor_of_another_endpoint_is_refused(tenant: Tenant) -> None:
    """API-20, F11b: The service refuses a cursor that comes from another list with 400."""
    refused(KEYS.page(tenant, cursor=first_cursor(REVOCATIONS, tenant)), "cursor")
    refused(REVOCATIONS.page(tenant, cursor=first_cursor(KEYS, tenant)), "cursor")


@EACH
def test_a_cut_cursor_is_refused(standing: Tenant, each: List) -> None:
    """F11d: The service refuses a cursor that was cut at either end."""
    cursor = first_cursor(each, standing)
    for length in range(len(cursor)):
        refused(each.page(standing, cursor=cursor[:length]), "cursor")
    for start in range(1, len(cursor), 9):
        refused(each.page(standing, cursor=cursor[start:]), "cursor")


@EACH
def test_a_flipped_cursor_is_refused(standing: Tenant, each: List) -> None:
    """F11e: The service refuses a cursor with any character changed."""
    cursor = first_cursor(each, standing)
    for place, character in enumerate(cursor):
        # The next of the alphabet, so that in the last place only spare bits may differ.
        other = chr(ord(character) + 1) if character not in "Zz9_-" else "A"
        refused(each.page(standing, cursor=cursor[:place] + other + cursor[place + 1 :]), "cursor")


GARBAGE = [
    *["", " ", "null", "None", "0", "1", "-1", "=", "====", "A", "AAAA", "A" * 10_000, "..", "*"],
    *["é", "٣", "🔑", "\x00", "\n", "{}", "[]", '"', "'", "%", "%00", "svc_ak_"],
    "eyJhbGciOiJub25lIn0",
]  # fmt: skip


@EACH
@pytest.mark.parametrize("cursor", GARBAGE, ids=lambda cursor: repr(cursor)[:20])
def test_garbage_is_no_cursor(standing: Tenant, each: List, cursor: str) -> None:
    """F11: whatever never was a cursor is 400, and is not repeated."""
    answer = each.page(standing, cursor=cursor)
    refused(answer, "cursor")
    assert len(answer.content) < 300


@EACH
def test_a_cursor_has_one_spelling(standing: Tenant, each: List) -> None:
    """F11: another encoding of the same bytes, or anything around them, is 400."""
    cursor = first_cursor(each, standing)
    padded = cursor + "=" * (-len(cursor) % 4)
    spellings = [f"{padded}=", f"{cursor}=", f" {cursor}", f"{cursor} ", f"{cursor}\n", cursor * 2]
    spellings += [base64.b64decode(padded, altchars=b"-_").hex(), cursor.swapcase()]
    for spelling in spellings:
        refused(each.page(standing, cursor=spelling), "cursor")
    assert each.page(standing, cursor=cursor).status_code == 200


# --- limits ---

LIMITS = [
    *["0", "-1", "101", "1e9", "1000000000", "99999999999999999999", "1_0", "%2B5", "+5", "%205"],
    *["5%20", "5.0", "5,0", "", "abc", "0x10", "0b1", "1e1", "-0", "NaN", "Infinity", "true"],
    *["%D9%A5", "%EF%BC%95", "%C2%B2", "5%0A", "5%00", "%00", "[5]", "5;6", "1" * 5000, "%FF"],
    *["null", "5/1"],
]  # fmt: skip


@EACH
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit[:20])
def test_a_limit_is_a_whole_number_to_a_hundred(standing: Tenant, each: List, limit: str) -> None:
    """API-19, F20a: The service accepts as `limit` only a plain decimal integer from 1 to 100."""
    answer = send(
        standing.admin.http.app,
        "GET",
        f"{each.path}?limit={limit}",
        headers=bearer(standing.admin.secret),
    )
    refused(answer, "limit")
    assert len(answer.content) < 300


@EACH
@pytest.mark.parametrize("query", ["limit=5&limit=5", "limit=5&limit=6", "limit", "limit=5&limit"])
def test_a_limit_is_given_once(standing: Tenant, each: List, query: str) -> None:
    """F20b: The service refuses a repeated or empty `limit`."""
    refused(standing.admin.get(f"{each.path}?{query}"), "")
