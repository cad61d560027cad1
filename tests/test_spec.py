"""The clauses of docs/spec have stable identifiers, and say the numbers and words of the code."""

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

from functions.revocations import schemas
from functions.signing_keys.schemas import PAYLOAD_MAX
from functions.trust import trust_bundle
from shared.authorizer.formats import warrants
from shared.authorizer.formats.warrants import WarrantReason
from shared.authorizer.trust import TrustReason
from shared.model import (
    rate_limit,
    revocation_counts,
    service_accounts,
    signing_keys,
    tenants,
    text,
)
from shared.model.audit.audit_log import AuditAction
from shared.model.lists import signers as srl_signers
from shared.model.revocation_batches import BATCH_MAX
from shared.operations.access import api_key_end
from shared.operations.lists import signers
from shared.web import bodies, errors, paging
from shared.web.bodies import BATCH_BODY_MAX
from tests.kit.processes import ROOT

_PAGES: Final = sorted((ROOT / "docs" / "spec").glob("*.md"))
_CLAUSE: Final = re.compile(r"^### (\S+)$", re.MULTILINE)
_IDENTIFIER: Final = re.compile(r"[A-Z]+-[1-9][0-9]*")
_LINK: Final = re.compile(r"\]\(((?:[\w./-]+\.\w+)?)(?:#([\w-]+))?\)")


def _clauses(page: Path) -> list[str]:
    """The identifiers of the clauses of a page, in its order."""
    return _CLAUSE.findall(page.read_text(encoding="utf-8"))


def test_each_identifier_is_there_once() -> None:
    """The headings of clauses are identifiers alone, which makes them anchors that stay."""
    clauses = [each for page in _PAGES for each in _clauses(page)]
    assert len(clauses) > 90
    assert [each for each in clauses if not _IDENTIFIER.fullmatch(each)] == []
    assert len(clauses) == len(set(clauses))


def test_the_index_names_the_page_of_each_clause() -> None:
    """The index of docs/spec has each page once, with exactly the prefixes of its clauses."""
    index = (ROOT / "docs" / "spec" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w-]+\.md)\]\(\1\) \| (.+?) \|", index, re.MULTILINE)
    said = {name: set(re.findall(r"`([A-Z]+)`", prefixes)) for name, prefixes in rows}
    found = {page.name: {each.split("-")[0] for each in _clauses(page)} for page in _PAGES}
    assert said == {name: prefixes for name, prefixes in found.items() if prefixes}


def test_links_lead_somewhere() -> None:
    """F1350c: Each link of a page names a file that is there, and each anchor a heading of it."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    anchors = {page.resolve(): _anchors(page) for page in pages}
    dangling = []
    for page in pages:
        for name, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / name).resolve() if name else page.resolve()
            if not target.exists() or anchor not in {"", *anchors.get(target, [anchor])}:
                dangling.append((page.name, name, anchor))
    assert dangling == []


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub and the site make of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


_NUMBERS: Final[dict[str, Iterable[int]]] = {
    "API-3": (bodies.BODY_MAX, BATCH_BODY_MAX),
    "API-18": (text.NAME_MAX, text.REASON_MAX),
    "API-19": (paging.LIMIT_MAX, paging.LIMIT_DEFAULT),
    "AUTH-6": (rate_limit.RATE_PER_SECOND, rate_limit.BURST),
    "AUTH-8": (rate_limit.RESERVE,),
    "APIKEY-7": (api_key_end.REMAINING // timedelta(hours=1),),
    "ACCOUNT-3": (service_accounts.API_KEYS_MAX,),
    "KEY-4": (signing_keys.ANCESTORS_MAX,),
    "KEY-12": (signing_keys.KEYS_MAX,),
    "WARRANT-4": (PAYLOAD_MAX,),
    "TRUST-2": (trust_bundle.PAGE,),
    "TRUST-4": (signing_keys.ANCESTORS_MAX, warrants.CLOCK_TOLERANCE // timedelta(minutes=1)),
    "REVOKE-31": (revocation_counts.DAYS_MAX, schemas.DAYS_DEFAULT),
    "CHECK-4": (BATCH_MAX,),
    "SIGNER-3": (signers.KEPT,),
    "SIGNER-8": (signers.KEPT,),
    "TENANT-2": (
        tenants.SRL_TTL_SECONDS_MIN,
        tenants.SRL_TTL_SECONDS_MAX,
        tenants.SRL_TTL_SECONDS_DEFAULT,
        tenants.ROTATION_GRACE_SECONDS_MIN,
        tenants.ROTATION_GRACE_SECONDS_MAX,
        tenants.AUDIT_RETENTION_DAYS_MIN,
        tenants.AUDIT_RETENTION_DAYS_MAX,
        tenants.AUDIT_RETENTION_DAYS_DEFAULT,
        tenants.FEED_WINDOW_MS_MIN,
        tenants.FEED_WINDOW_MS_MAX,
        tenants.FEED_WINDOW_MS_DEFAULT,
    ),
}


def test_clauses_say_the_limits_of_the_code() -> None:
    """No limit is changed in the code alone."""
    said = {
        clause: {int(each) for each in re.findall(r"\b\d+\b", _text(clause).replace(",", ""))}
        for clause in _NUMBERS
    }
    missing = {clause: set(numbers) - said[clause] for clause, numbers in _NUMBERS.items()}
    assert {clause: numbers for clause, numbers in missing.items() if numbers} == {}


def test_clauses_list_the_words_of_the_code() -> None:
    """Reasons in the order of the checks, states, errors with their statuses, audit actions."""
    assert _words("WARRANT-9") == list(WarrantReason)
    assert _words("TRUST-4") == list(TrustReason)
    assert _words("SIGNER-2") == list(srl_signers.SrlSignerStatus)
    codes = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", _text("API-10"), re.MULTILINE)
    raised = [(str(status), error.code) for error, status in errors.STATUS.items()]  # type: ignore[attr-defined]
    raised += [("500", "internal_error"), ("503", "unavailable")]
    assert codes == sorted(raised, key=lambda each: each[0])
    rows = re.findall(r"^\| (`\w+\..+?) \|", _text("AUDIT-3"), re.MULTILINE)
    actions = [_group(re.findall(r"`([\w.]+)`", row)) for row in rows]
    assert sorted(each for group in actions for each in group) == sorted(AuditAction)


def _text(clause: str) -> str:
    """What a clause says, without its heading."""
    pages = "".join(page.read_text(encoding="utf-8") for page in _PAGES)
    return re.split(r"^##", pages.partition(f"### {clause}\n")[2], maxsplit=1, flags=re.MULTILINE)[
        0
    ]


def _words(clause: str) -> list[str]:
    """The first cells of the table of a clause."""
    return re.findall(r"^\| `(\w+)` \|", _text(clause), re.MULTILINE)


def _group(names: list[str]) -> list[str]:
    """The names in full: `a.b`, `.c` stands for `a.b`, `a.c`."""
    kind = names[0].partition(".")[0]
    return [f"{kind}{name}" if name.startswith(".") else name for name in names]


def test_each_cited_clause_is_there() -> None:
    """No citation in the code, the tests or the docs names a clause that is not there."""
    clauses = {each for page in _PAGES for each in _clauses(page)}
    prefixes = "|".join(sorted({each.split("-")[0] for each in clauses}))
    cited = {
        (str(path.relative_to(ROOT)), each)
        for folder in ("shared", "functions", "infra", "tests", "docs")
        for kind in ("*.py", "*.md")
        for path in (ROOT / folder).rglob(kind)
        for each in re.findall(rf"\b(?:{prefixes})-[0-9]+\b", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 100
    assert [place for place in cited if place[1] not in clauses] == []
