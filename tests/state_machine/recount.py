"""What the service says of a tenant, compared with its books."""

from collections import Counter
from datetime import datetime
from itertools import product
from typing import Any, Protocol

import httpx2

from tests.state_machine.books import Books, Entry, Fields, moment, text

TYPES = ("root", "issuer", "notary")
STATUSES = ("active", "suspended", "rotated", "revoked")

_FILTERS = list(product((None, *TYPES), (None, *STATUSES)))
_PAGE = 5
_LONG_PAGE = 40


class Ask(Protocol):
    """A question to the service, answered by either instance while nothing breaks."""

    def __call__(self, path: str, body: Any = None) -> httpx2.Response:
        """The answer to a GET, or to a POST with this body."""
        ...


def recount(books: Books, ask: Ask, *, span: tuple[datetime, datetime], turn: int) -> None:
    """Every list, walked to its end, its totals on the way, and what else can be read at once.

    `span` holds the times of all audit entries; `turn` says which filter of the keys has its turn.
    """
    keys = {each["id"]: lasting(each) for each in walk(ask, "/v1/api-keys")}
    assert keys == books.api_keys
    for path, kept in (
        ("/v1/service-accounts", books.accounts),
        ("/v1/authorizers", books.authorizers),
        ("/v1/webhooks", books.webhooks),
        ("/v1/keys", books.keys),
        ("/v1/revocations", books.revocations),
    ):
        assert {each["id"]: each for each in walk(ask, path)} == kept
    _check_filter(books, ask, *_FILTERS[turn % len(_FILTERS)])
    _check_verdicts(books, ask)
    _check_srl(books, ask, span[1])
    assert ask("/v1/tenant/settings").json() == books.settings
    assert entries(ask, span) == books.entries
    signers = ask("/v1/audit-logs/keys").json()["keys"]
    assert {each["key_id"]: each for each in signers} == books.audit_signers


def thoroughly(books: Books, ask: Ask) -> None:
    """What takes one question for each key, account or filter."""
    for type_, status in _FILTERS:
        _check_filter(books, ask, type_, status)
    for key_id, key in books.keys.items():
        assert ask(f"/v1/keys/{key_id}").json() == key
        assert ask(f"/v1/keys/{key_id}/versions").json()["versions"] == books.versions(key_id)
        signed = walk(ask, f"/v1/keys/{key_id}/warrants")
        assert by_warrant(signed) == by_warrant(shown(books.signed_by(key_id)))
    for account_id, account in books.accounts.items():
        assert ask(f"/v1/service-accounts/{account_id}").json() == account
        listed = walk(ask, f"/v1/service-accounts/{account_id}/api-keys")
        assert {each["id"] for each in listed} == {*books.owned(account_id)}
    for key_id, key in books.api_keys.items():
        assert lasting(ask(f"/v1/api-keys/{key_id}").json()) == key


def walk(ask: Ask, path: str, *, limit: int = _PAGE) -> list[Fields]:
    """All entries of a list, which has each of them once and counts them right on every page."""
    found: list[Fields] = []
    totals: set[int] = set()
    cursor, ahead = "", True
    while ahead:
        separator = "&" if "?" in path else "?"
        answer = ask(f"{path}{separator}limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        totals.add(page.pop("total"))
        cursor, ahead = f"&cursor={page['cursor']}", page.pop("cursor") is not None
        (listed,) = page.values()
        assert len(listed) == limit if ahead else len(listed) <= limit
        found += listed
    assert totals == {len(found)}, "the total is not what there is"
    return found


def entries(
    ask: Ask, span: tuple[datetime, datetime], *, query: str = "", limit: int = _LONG_PAGE
) -> Counter[Entry]:
    """What the audit log says, each of its entries once."""
    start, end = (each.strftime("%Y-%m-%dT%H:%M:%SZ") for each in span)
    listed = walk(ask, f"/v1/audit-logs?from={start}&to={end}{query}", limit=limit)
    assert len({each["id"] for each in listed}) == len(listed)
    return Counter(Entry(each["action"], each["resource_id"], each["actor"]) for each in listed)


def lasting(key: Fields) -> Fields:
    """An API key without its usage."""
    return {name: each for name, each in key.items() if name not in _USAGE}


_USAGE = ("last_used_at", "request_count")


def shown(warrants: list[Fields]) -> list[Fields]:
    """Warrants as a list shows them."""
    names = ("warrant_id", "key_version", "signed_at", "expires_at")
    return [{name: each[name] for name in names} for each in warrants]


def by_warrant(warrants: list[Fields]) -> dict[str, Fields]:
    """Warrants by their identifiers."""
    return {each["warrant_id"]: each for each in warrants}


def _check_filter(books: Books, ask: Ask, type_: str | None, status: str | None) -> None:
    query = "".join(
        f"&{name}={value}" for name, value in (("type", type_), ("status", status)) if value
    )
    listed = walk(ask, f"/v1/keys?{query[1:]}" if query else "/v1/keys")
    assert {each["id"] for each in listed} == {
        key_id
        for key_id, key in books.keys.items()
        if type_ in (None, key["type"]) and status in (None, key["status"])
    }


def _check_verdicts(books: Books, ask: Ask) -> None:
    """Check says at once what the records say."""
    ids = [*books.known_warrants(), "svc_wrt_nobody"]
    answer = ask("/v1/revocations/check-batch", {"warrant_ids": ids})
    assert answer.json()["results"] == {each: in_batch(books.verdict(each)) for each in ids}


def in_batch(verdict: Fields) -> Fields:
    """A verdict as a batch shows it."""
    return {name: each for name, each in verdict.items() if name not in ("warrant_id", "reason")}


def _check_srl(books: Books, ask: Ask, latest: datetime) -> None:
    """The list in force is the last one that was published, under a signer that is listed."""
    answer = ask("/v1/revocations/srl/signed")
    assert (answer.json(), answer.headers["etag"]) == (books.srl, books.etag)
    assert answer.headers["x-srl-key-id"] == books.signer_id
    _check_signers(books, ask("/v1/revocations/srl/keys").json()["keys"], latest)


def _check_signers(books: Books, listed: list[Fields], latest: datetime) -> None:
    """The signers, that of the list in force first; retired ones may be missing, but not early."""
    assert listed[0]["key_id"] == books.signer_id
    found = {each["key_id"]: each for each in listed}
    for key_id, signer in books.signers.items():
        if signer["status"] == "pending":
            signer["activates_at"] = text(books.signer_activates_at(signer))
        if key_id not in found:
            assert moment(books.listed_until[key_id]) <= latest
        assert found.pop(key_id, signer) == signer
    assert not found
