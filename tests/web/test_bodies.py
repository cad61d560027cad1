"""Request bodies: bounded, JSON, and strictly so (API-3, API-4)."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.kit.api import Tenant
from tests.kit.asgi import Answer, bearer, exchange, run, send
from tests.kit.endpoints import ENDPOINTS, as_caller, audited, shape

# Comes back in no answer.
MARK = "zq7mark"

KEYS, REVOCATIONS, BATCH = "/v1/api-keys", "/v1/revocations", "/v1/revocations/check-batch"
BODIES: dict[str, dict[str, Any]] = {
    KEYS: {"name": "n", "scopes": ["read-only"]},
    REVOCATIONS: {"warrant_id": "svc_wrt_a", "reason": "r"},
    BATCH: {"warrant_ids": ["svc_wrt_a"]},
}
LIMITS = {KEYS: 256 * 1024, REVOCATIONS: 256 * 1024, BATCH: 1024 * 1024}
EACH = pytest.mark.parametrize("path", BODIES)
TAKES_NONE = [
    key for key, endpoint in ENDPOINTS.items() if endpoint.body is None and key[0] != "GET"
]
EACH_WITHOUT = pytest.mark.parametrize("key", TAKES_NONE, ids=" ".join)

pytestmark = pytest.mark.usefixtures("refilled")


JSON = ("Content-Type", "application/json")


def ask(
    tenant: Tenant, key: tuple[str, str], chunks: Iterable[bytes], *headers: tuple[str, str]
) -> Answer:
    sent = bearer(tenant.admin.secret, *headers)
    return send(tenant.admin.http.app, *key, headers=sent, chunks=chunks)


def post(tenant: Tenant, path: str, body: bytes, content_type: str = "application/json") -> Answer:
    return ask(tenant, ("POST", path), [body], ("Content-Type", content_type))


def valid(path: str) -> bytes:
    return json.dumps(BODIES[path]).encode()


def refused(answer: Answer, status: int = 400, code: str = "invalid_request") -> str:
    """The message of a refusal, which has our shape and repeats nothing."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert shape(body) == {"error": {"code": ..., "message": ...}}
    assert body["error"]["code"] == code
    assert MARK not in answer.text
    assert len(answer.content) < 4096
    return str(body["error"]["message"])


def changed(path: str, raw: bytes) -> bytes:
    """The body of `path` with its first field's value (in a list: its member) replaced by `raw`."""
    name, *rest = BODIES[path]
    value = b"[" + raw + b"]" if path == BATCH else raw
    members = [json.dumps(name).encode() + b":" + value]
    members += [json.dumps(each).encode() + b":" + json.dumps(BODIES[path][each]).encode()
                for each in rest]  # fmt: skip
    return b"{" + b",".join(members) + b"}"


# --- values that are not JSON, or not what it says: tests/model/test_strict_json.py has all ---

VALUES = {
    "a fraction of 5000 digits": b"0." + b"7" * 5000,
    "a lone high surrogate": rb'"zq7mark\ud800"',
    "a lone surrogate as a key": rb'{"zq7mark\ud800": 1}',
    "NUL, escaped": rb'"svc_wrt_zq7mark\u0000"',
    "broken UTF-8": b'"zq7mark\xff"',
    "true": b"true",
    "false": b"false",
    "1": b"1",
    "5.0": b"5.0",
    "null": b"null",
    "an object": b'{"zq7mark": 1}',
    "an array": b'["zq7mark"]',
    "nothing": b"",
}


@EACH
@pytest.mark.parametrize("raw", VALUES.values(), ids=VALUES)
def test_a_hostile_value_is_refused(standing: Tenant, path: str, raw: bytes) -> None:
    """API-9, F18: The service refuses a hostile value with 400 and never repeats it in an error."""
    before = audited(standing)
    refused(post(standing, path, changed(path, raw)))
    assert audited(standing) == before


@EACH
@pytest.mark.parametrize("body", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000])
def test_nothing_but_nesting_is_refused(standing: Tenant, path: str, body: bytes) -> None:
    """F18c: The service refuses a body of 100,000 nested levels with 400."""
    refused(post(standing, path, body))


# --- whole bodies ---


def spoilt(path: str) -> dict[str, bytes]:
    valid = json.dumps(BODIES[path])
    first = json.dumps(next(iter(BODIES[path]))).encode()
    mark = json.dumps(MARK).encode()
    return {
        "nothing": b"",
        "null": b"null",
        "text": mark,
        "an array": b"[" + valid.encode() + b"]",
        "an empty array": b"[]",
        "an empty object": b"{}",
        "an array of pairs": json.dumps(list(BODIES[path].items())).encode(),
        "UTF-16": valid.encode("utf-16"),
        "trailing text": valid.encode() + mark,
        "a duplicate key": b"{" + first + b":" + mark + b"," + valid[1:].encode(),
        "an unknown field": b'{"zq7mark!":1,' + valid[1:].encode(),
        "an unknown field, null": b'{"svc_zq7mark":null,' + valid[1:].encode(),
        "an empty field name": b'{"":1,' + valid[1:].encode(),
        "a field of objects": b'{"__proto__":{"zq7mark":1},' + valid[1:].encode(),
        "a form": b"name=zq7mark&scopes=admin",
    }  # fmt: skip


@EACH
@pytest.mark.parametrize("name", spoilt(KEYS))
def test_a_spoilt_body_is_refused(standing: Tenant, path: str, name: str) -> None:
    """API-4, F18a: The service refuses unknown fields, duplicate keys, NaN and lone surrogates."""
    before = audited(standing)
    refused(post(standing, path, spoilt(path)[name]))
    assert audited(standing) == before


@EACH
def test_every_fault_is_named_at_once(standing: Tenant, path: str) -> None:
    """The message names each wrong field and the fields that there are."""
    names = list(BODIES[path])
    body = dict.fromkeys([*names, f"{MARK} {MARK}"], 5)
    message = refused(post(standing, path, json.dumps(body).encode()))
    assert all(f"{name}: " in message for name in names)
    *_, allowed = message.split("unknown field; allowed: ")
    assert set(names) <= set(allowed.rstrip(".").split(", "))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reasn", "field reasn;"),
        ("a.b-c_1" + "x" * 57, "field a.b-c_1" + "x" * 57 + ";"),
        ("x" * 65, "field;"),
        ("<script>", "field;"),
        ("naïve", "field;"),
        ("a\nb", "field;"),
        ("", "field;"),
        ("svc_" + "k" * 43, "field;"),
    ],
)
def test_an_unknown_field_is_named(standing: Tenant, name: str, said: str) -> None:
    """API-4, F570a: The message names the first unknown field, unless the name may be a text."""
    body = BODIES[REVOCATIONS] | {name: 1, "other": 1}
    message = refused(post(standing, REVOCATIONS, json.dumps(body).encode()))
    assert f"body: unknown {said} allowed: reason, " in message
    answer = standing.admin.get("/v1/revocations", params={name: "1"})
    assert f"query: unknown parameter{said.removeprefix('field')} allowed: " in answer.text


FLOODS = {
    "of wrong identifiers": {"warrant_ids": [MARK] * 1000},
    "of too many identifiers": {"warrant_ids": [MARK] * 90_000},
    "of unknown fields": {f"{MARK}{number}!": 1 for number in range(10_000)},
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_faults_has_a_short_answer(standing: Tenant, name: str) -> None:
    """Thousands of faults in one body are not answered with as many sentences."""
    refused(post(standing, BATCH, json.dumps(FLOODS[name]).encode()))


@EACH
def test_escapes_and_white_space_are_json(tenant: Tenant, path: str) -> None:
    """What JSON allows is accepted: escapes in names and values, white space around."""
    escaped = "".join(f"\\u{ord(c):04x}" if c.isalpha() else c for c in json.dumps(BODIES[path]))
    status = ENDPOINTS["POST", path].status
    assert post(tenant, path, b" \r\n\t" + escaped.encode() + b"\n").status_code == status


# --- the content type ---

ACCEPTED = [
    *["application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8"],
    *["application/json; charset=utf8", "application/json; charset=iso-8859-1"],
    *['application/json; profile=x; q="a;b"', "application/json;"],
    *['application/json; charset="utf-8"', "Application/JSON", "application/json "],
]
OTHERS = [
    *["", "*/*", "json", "text/json", "text/plain", "text/plain; application/json"],
    *["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
    *["application/json charset=utf-8", "application/jsonx", "application/json-patch+json"],
    *["application/problem+json", "application/octet-stream"],
    *["application/json, application/json", "application/json\x00", "äpplication/json"],
]


@EACH
@pytest.mark.parametrize("content_type", ACCEPTED)
def test_json_in_utf8_is_the_content_type(tenant: Tenant, path: str, content_type: str) -> None:
    """API-3: The service accepts `application/json` in any case and with `charset=utf-8`."""
    answer = post(tenant, path, valid(path), content_type)
    assert answer.status_code == ENDPOINTS["POST", path].status


@EACH
@pytest.mark.parametrize("content_type", OTHERS)
def test_no_other_content_type_is(standing: Tenant, path: str, content_type: str) -> None:
    """API-3, F18d: The service refuses any content type but JSON in UTF-8 with 415."""
    answer = post(standing, path, valid(path), content_type)
    message = refused(answer, 415, "unsupported_media_type")
    assert message.startswith("Content-Type")


@EACH
@pytest.mark.parametrize("count", [0, 2])
def test_the_content_type_is_given_once(standing: Tenant, path: str, count: int) -> None:
    """F18: a body without a content type, or with two of them, is 415."""
    answer = ask(standing, ("POST", path), [valid(path)], *[JSON] * count)
    refused(answer, 415, "unsupported_media_type")


@EACH
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip", "x", ""])
def test_a_packed_body_is_refused(standing: Tenant, path: str, encoding: str) -> None:
    """API-3, F86a: The service refuses any `Content-Encoding` but identity with 415."""
    answer = ask(standing, ("POST", path), [valid(path)], JSON, ("Content-Encoding", encoding))
    assert refused(answer, 415, "unsupported_media_type").startswith("Content-Encoding: ")


# --- the size ---


def pieces(body: bytes, size: int = 65_536) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


@EACH
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("excess", [-1, 0, 1, 1000])
def test_the_size_of_a_body_is_bounded(
    tenant: Tenant, path: str, excess: int, declared: bool
) -> None:
    """API-3, F18: The service refuses a body over 256 KiB, or 1 MiB for check-batch, with 413."""
    body = valid(path).ljust(LIMITS[path] + excess)
    length = [("Content-Length", str(len(body)))] if declared else []
    answer = ask(tenant, ("POST", path), pieces(body), JSON, *length)
    if excess <= 0:
        assert answer.status_code == ENDPOINTS["POST", path].status
    else:
        assert str(LIMITS[path]) in refused(answer, 413, "payload_too_large")


@EACH
def test_an_endless_body_is_not_read_to_its_end(standing: Tenant, path: str) -> None:
    """F18, S6: The service stops reading a body at the limit."""
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1000
            yield b"x" * 1000

    answer = ask(standing, ("POST", path), endless(), JSON)
    refused(answer, 413, "payload_too_large")
    assert read <= LIMITS[path] + 2000


@EACH
def test_a_refused_body_leaves_no_stream_open(standing: Tenant, path: str) -> None:
    """F33a: A request that is refused before its end leaves no stream open."""
    streams: list[Any] = []

    async def observed() -> Answer:
        _, finalizer = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(streams.append, finalizer)
        headers = bearer(standing.admin.secret, JSON)
        chunks = pieces(b"x" * (LIMITS[path] + 1))
        return await exchange(standing.admin.http.app, "POST", path, headers=headers, chunks=chunks)

    refused(run(observed()), 413, "payload_too_large")
    assert "stream" in [stream.__name__ for stream in streams]
    assert [stream for stream in streams if stream.ag_frame is not None] == []


# --- endpoints that take no body ---


@EACH_WITHOUT
@pytest.mark.parametrize("body", [b'{"zq7mark!": 1}', b"[]", b"{"])
def test_an_endpoint_without_a_body_takes_none(
    standing: Tenant, key: tuple[str, str], body: bytes
) -> None:
    """A body that says something is 400 where none is taken, and nothing is done."""
    target = ENDPOINTS[key].target(standing)
    before = audited(standing)
    refused(ask(standing, (key[0], target), [body], JSON))
    assert audited(standing) == before


@EACH_WITHOUT
@pytest.mark.parametrize("body", [b"", b"{}"])
def test_a_body_that_says_nothing_is_none(
    standing: Tenant, key: tuple[str, str], body: bytes
) -> None:
    """Clients that always send an object are served where no body is taken."""
    target = ENDPOINTS[key].target(standing)
    sent = bearer(as_caller(key, standing.admin).secret, JSON)
    answer = send(standing.admin.http.app, key[0], target, headers=sent, chunks=[body])
    assert answer.status_code == ENDPOINTS[key].status
