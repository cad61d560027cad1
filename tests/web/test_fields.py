"""Names, reasons, timestamps and identifiers as callers write them (API-14 to API-18)."""

import re
import unicodedata
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from shared.model.identifiers import API_KEY, REVOCATION
from tests.kit.api import Tenant
from tests.kit.asgi import bearer, send
from tests.kit.endpoints import ENDPOINTS, at, audited, call_as_it_stands, identifier

KEYS, REVOCATIONS = "/v1/api-keys", "/v1/revocations"
CHECK, BATCH = "/v1/revocations/check", "/v1/revocations/check-batch"


def create_key(tenant: Tenant, **fields: Any) -> Any:
    body = {"name": "n", "scopes": ["read-only"]} | fields
    return tenant.admin.post(KEYS, json=body)


def revoke(tenant: Tenant, **fields: Any) -> Any:
    body = {"warrant_id": tenant.ports.new_id("wrt"), "reason": "r"} | fields
    return tenant.admin.post(REVOCATIONS, json=body)


def refused(answer: Any, *names: str) -> None:
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "invalid_request"
    assert all(name in answer.json()["error"]["message"] for name in names)


# --- names and reasons: tests/model/test_text.py has all of them ---

KEPT = {
    "punctuation": 'o\'Neill & sons <b> "x" \\ / {}',
    "a family of emoji": "👨‍👩‍👧‍👦",
    "decomposed": unicodedata.normalize("NFD", "é"),
    "a joiner within a word": "\u0915\u094d\u200d\u0937",
    "a non-joiner within a word": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "an escape of JSON": "\\u0000",
    "SQL": "'; DROP TABLE items; --",
}
REFUSED = {
    "empty": "",
    "a space": " ",
    "line breaks": "\r\n",
    "ideographic spaces": "\u3000\u3000",
    "a zero-width space": "zq7\u200bmark",
    "a joiner at the end": "zq7\u200d",
    "a joiner before a space": "zq7\u200d mark",
    "two joiners": "zq7\u200d\u200dmark",
    "a filler that shows nothing": "\u3164",
    "a mark on nothing": "\u0301",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_text_is_kept_as_given(standing: Tenant, text: str) -> None:
    """API-18, F19: The service stores and returns names and reasons exactly as given."""
    created = create_key(standing, name=text).json()
    assert created["name"] == text
    assert standing.admin.get(f"{KEYS}/{created['id']}").json()["name"] == text
    assert standing.admin.get(KEYS).json()["api_keys"][0]["name"] == text
    record = revoke(standing, reason=text).json()
    assert record["reason"] == text
    assert standing.admin.get(REVOCATIONS).json()["revocations"][0]["reason"] == text
    check = standing.admin.get(f"{CHECK}?warrant_id={record['warrant_id']}")
    assert check.json()["reason"] == text


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_blank_or_control_characters_are_refused(standing: Tenant, text: str) -> None:
    """API-18, F19a, F87: The service refuses blank texts and control or hidden characters."""
    before = audited(standing)
    for answer, name in ((create_key(standing, name=text), "name"),
                         (revoke(standing, reason=text), "reason")):  # fmt: skip
        refused(answer, name)
        assert "zq7" not in answer.text
    assert audited(standing) == before


@pytest.mark.parametrize("text", ["one\ntwo", "one\n\n\ttwo"])
def test_a_reason_has_lines_and_a_name_has_not(standing: Tenant, text: str) -> None:
    """F87: line feeds and tabs are kept in a reason, and refused in a name."""
    assert revoke(standing, reason=text).json()["reason"] == text
    refused(create_key(standing, name=text), "name")


@pytest.mark.parametrize("character", ["a", "é", "字", "🔑"])
def test_the_length_is_in_characters(standing: Tenant, character: str) -> None:
    """API-18, F19: A name has at most 255 characters and a reason at most 1024, of any script."""
    assert create_key(standing, name=character * 255).json()["name"] == character * 255
    assert create_key(standing, name=f" {character * 255} ").status_code == 201
    refused(create_key(standing, name=character * 256), "name", "255")
    assert revoke(standing, reason=character * 1024).json()["reason"] == character * 1024
    refused(revoke(standing, reason=character * 1025), "reason", "1024")


def test_twins_stay_distinct(standing: Tenant) -> None:
    """F19b: Two names that differ only in Unicode composition stay two names."""
    forms = [unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD")]
    names = [create_key(standing, name=form).json()["name"] for form in forms]
    assert names == forms
    assert names[0] != names[1]


# --- timestamps ---

MOMENTS = {
    "2026-11-21T12:00:01Z": "2026-11-21T12:00:01Z",
    "2026-11-22T00:10:32Z": "2026-11-22T00:10:32Z",
    "2026-11-22T02:10:32+02:00": "2026-11-22T00:10:32Z",
    "2026-11-21T19:10:32-05:00": "2026-11-22T00:10:32Z",
    "2026-11-22T05:55:32+05:45": "2026-11-22T00:10:32Z",
    "2026-11-22T00:10:32+00:00": "2026-11-22T00:10:32Z",
    "2026-11-22T00:10:32-00:00": "2026-11-22T00:10:32Z",
    "2026-11-22t00:10:32z": "2026-11-22T00:10:32Z",
    "2026-11-22T00:10:32.5Z": "2026-11-22T00:10:32Z",
    "2026-11-22T00:10:32.999999999Z": "2026-11-22T00:10:32Z",
    "2028-02-29T00:00:00Z": "2028-02-29T00:00:00Z",
    "9999-12-31T23:59:59Z": "9999-12-31T23:59:59Z",
}
NO_MOMENTS: list[Any] = [
    *["", " ", "never", "null", "tomorrow", "now"],
    # No offset, no seconds, no time, another separator or order.
    *["2030-01-01T00:00:00", "2030-01-01T00:00Z", "2030-01-01", "2030-01-01T00Z", "2030-01-01TZ"],
    *["2030-01-01 00:00:00Z", "2030-01-01_00:00:00Z", "2030-01-0100:00:00Z", "20300101T000000Z"],
    *["2030-W01-1T00:00:00Z", "2030-001T00:00:00Z", "01-01-2030T00:00:00Z", "30-01-01T00:00:00Z"],
    # Moments that there are not.
    *["2030-13-01T00:00:00Z", "2030-00-01T00:00:00Z", "2030-02-29T00:00:00Z"],
    *["2030-01-01T24:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:60:00Z"],
    *["2030-01-32T00:00:00Z", "2030-12-31T23:59:60Z", "2030-01-01T00:00:61Z"],
    "2030-06-30T23:59:60+00:00",
    # Offsets that there are not.
    *["2030-01-01T00:00:00+10:60", "2030-01-01T00:00:00+24:00", "2030-01-01T00:00:00+0200"],
    *["2030-01-01T00:00:00+02", "2030-01-01T00:00:00+2:00", "2030-01-01T00:00:00 Z"],
    *["2030-01-01T00:00:00UTC", "2030-01-01T00:00:00Z+00:00", "2030-01-01T00:00:00+02:00:00"],
    "2030-01-01T00:00:00\u221202:00",
    # Fractions, digits and years out of bounds.
    *["2030-01-01T00:00:00.Z", "2030-01-01T00:00:00,5Z", "2030-01-01T00:00.5Z"],
    *["10000-01-01T00:00:00Z", "+2030-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"],
    *["٢٠٣٠-01-01T00:00:00Z", "2030-01-01T00:00:00Z\n", " 2030-01-01T00:00:00Z", "2030-1-1T0:0:0Z"],
    "2030-01-01T00:00:00Z" * 1000,
    # Other types.
    *[1893456000, 1893456000.0, 18934560000000, "1893456000", True, False, [], {}],
    ["2030-01-01T00:00:00Z"],
]  # fmt: skip


@pytest.mark.parametrize("given", MOMENTS)
def test_a_moment_is_any_rfc3339_timestamp(standing: Tenant, given: str) -> None:
    """API-16, F18: Times are returned in UTC with whole seconds, whatever offset they had."""
    created = create_key(standing, expires_at=given)
    assert created.status_code == 201
    assert created.json()["expires_at"] == MOMENTS[given]
    fetched = standing.admin.get(f"{KEYS}/{created.json()['id']}")
    assert fetched.json()["expires_at"] == MOMENTS[given]


@pytest.mark.parametrize("given", NO_MOMENTS, ids=lambda given: str(given)[:40])
def test_nothing_else_is_a_moment(standing: Tenant, given: Any) -> None:
    """API-17, F18: The service accepts only RFC 3339 timestamps with seconds and an offset."""
    before = audited(standing)
    answer = create_key(standing, expires_at=given)
    refused(answer, "expires_at")
    assert len(answer.content) < 500
    assert audited(standing) == before


@pytest.mark.parametrize("seconds", [-1e9, -86400, -1, 0])
def test_an_expiry_lies_in_the_future(standing: Tenant, seconds: float) -> None:
    """API-17: The service refuses an `expires_at` that is not in the future."""
    moment = standing.ports.now() + timedelta(seconds=seconds)
    before = audited(standing)
    refused(create_key(standing, expires_at=moment.isoformat()), "expires_at", "future")
    assert audited(standing) == before


MISSPELT = [
    *["expiresAt", "expires", "Expires_at", "expires-at", "expires_at ", " expires_at", "ttl", ""],
    *["exp\u0131res_at", "expires_\u0430t", "expires_at\u200b", "expires_at\x00"],
]


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_expiry_creates_nothing(standing: Tenant, name: str) -> None:
    """API-4, F18: A misspelt `expires_at` never creates a key that does not expire."""
    before = audited(standing)
    refused(create_key(standing, **{name: "2030-01-01T00:00:00Z"}), "expires_at")
    assert audited(standing) == before


# --- other types ---

VALUES: list[Any] = [True, 1, 5.0, None, [], {}, ["n"]]
WRONG_TYPES: list[dict[str, Any]] = [
    *[{"name": value} for value in VALUES],
    *[{"scopes": value} for value in ("admin", {"admin": True}, True, 1, None, ["admin", 1])],
    *[{"scopes": [value]} for value in (True, None, 1, ["admin"], {"admin": 1}, "Admin", "admin ")],
    *[{"service_account_id": value} for value in VALUES if value is not None],
]


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=str)
def test_a_field_has_exactly_its_type(standing: Tenant, fields: dict[str, Any]) -> None:
    """API-4, F18: The service never converts a value of another type to the type of a field."""
    before = audited(standing)
    refused(create_key(standing, **fields), next(iter(fields)))
    assert audited(standing) == before


# --- identifiers ---

NO_WARRANT_IDS = [
    *["", "svc_wrt_", "a", "svc_wrt", "svc_wrt_" + "a" * 65, "SVC_WRT_a", "svc_WRT_a", "svc_rev_a"],
    *["svc_wrt_a b", " svc_wrt_a", "svc_wrt_a ", "svc_wrt_a\n", "\nsvc_wrt_a", "svc_wrt_a\x00"],
    *["svc_wrt_a/b", "svc_wrt_..", "svc_wrt_a.b", "svc_wrt_é", "svc_wrt_٣", "svc_wrt_a,svc_wrt_b"],
    *["svc_wrt_%41", "svc_wrt_a#count", "#count", "svc_wrt_🔑", "xsvc_wrt_a"],
    "svc_wrt_" + "a" * 9999,
]  # fmt: skip


@pytest.mark.parametrize("warrant_id", NO_WARRANT_IDS, ids=lambda value: repr(value)[:30])
def test_nothing_else_names_a_warrant(standing: Tenant, warrant_id: str) -> None:
    """API-15, F19c: The service refuses a malformed warrant identifier with 400 everywhere."""
    refused(revoke(standing, warrant_id=warrant_id), "warrant_id")
    batch = {"warrant_ids": ["svc_wrt_a", warrant_id]}
    refused(standing.admin.post(BATCH, json=batch), "warrant_ids")
    answer = standing.admin.get(f"{CHECK}?warrant_id={quote(warrant_id, safe='')}")
    refused(answer, "warrant_id")
    assert "a" * 65 not in answer.text


@pytest.mark.parametrize(
    "query",
    ["", "?", "?warrant_id", "?warrant_id=", "?warrant_ids=svc_wrt_a", "?WARRANT_ID=svc_wrt_a",
     "?warrant_id=svc_wrt_a&warrant_id=svc_wrt_a", "?warrant_id=svc_wrt_a&warrant_id=svc_wrt_b",
     "?warrant_id=svc_wrt_a&x=1", "?warrant_id[]=svc_wrt_a", "?warrant_id=%ff", "?warrant_id=%00",
     "?warrant_id=svc_wrt_a%0A", "?warrant_id=svc_wrt_a;x=1", "?svc_wrt_a"],
)  # fmt: skip
def test_check_takes_one_identifier(standing: Tenant, query: str) -> None:
    """The query of check is one warrant identifier, given once, and nothing beside it."""
    answer = send(
        standing.admin.http.app, "GET", f"{CHECK}{query}", headers=bearer(standing.admin.secret)
    )
    refused(answer)


IN_PATH = [key for key in ENDPOINTS if re.search(r"\{(?!version|path|sha256|name)", key[1])]


def forms(real: str) -> list[str]:
    """What is not the identifier `real`, as it stands in a path."""
    prefix, ulid = real[:-26], real[-26:]
    other = REVOCATION if prefix == "svc_ak_" else API_KEY
    return [
        *["x", "%20", "..", "%2e%2e", ".", "%00", "%0A", "%FF", "%E2%80%AE", "-", "*", "null", "0"],
        *[real.upper(), real.replace("svc", "SVC"), real[:-1], f"{real}0", ulid, real[4:], prefix],
        *[f"{real}%0A", f"{real}%20", f"%20{real}", f"{real}%00", f"{real}.json", f"{real};x=1"],
        *[f"{real},{real}", f"%2F{real}", f"..%2F{real}", f"{real}%2F..", "a" * 9999],
        *[f"{prefix}8{ulid[1:]}", f"{real[:-1]}u", f"{real[:-1]}%EF%BC%91", f"svc_{other}_{ulid}"],
    ]


@pytest.mark.parametrize("key", IN_PATH, ids=" ".join)
def test_another_form_in_a_path_is_unknown(tenant: Tenant, key: tuple[str, str]) -> None:
    """API-14, F19: A path with a malformed identifier is answered with 404 and changes nothing."""
    target = ENDPOINTS[key].target(tenant)
    real = identifier(target)
    before = audited(tenant)
    for form in forms(real):
        answer = call_as_it_stands(key, tenant.admin, at(key[1], form))
        assert (answer.status_code, form) == (404, form)
        assert answer.json()["error"]["code"] == "not_found"
        assert "location" not in answer.headers
    assert audited(tenant) == before
