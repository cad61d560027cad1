"""Lists that are long: streamed where they are files, fetched elsewhere on Lambda, packed for both.

The limits are lowered, so that a list of some hundred warrants is a long one.
"""

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from functions.authorizers import handler as authorizers
from functions.srl import handler
from infra import data_folder
from shared.model.lists.head import SrlHead, folders, packed_folder
from shared.operations.changes import srl
from shared.operations.lists import in_force, publication
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.web import stored as bodies
from shared.web.stored import ANSWER_MAX, RangeResponse
from tests.infra.folders import chosen, store_revocations
from tests.kit import asgi
from tests.kit.api import Tenant, serve
from tests.kit.aws import aws
from tests.kit.intercepted import Call, Intercepted
from tests.kit.lambda_events import Answer, Caller, Request
from tests.kit.worlds import Clock

SIGNED = "/v1/revocations/srl/signed"
MANY = 150


@pytest.fixture(autouse=True)
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_MAX", 1_000)
    monkeypatch.setattr(bodies, "ANSWER_MAX", 5_000)


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    """A tenant whose list is long, and stored in both forms."""
    made = Tenant(ports, serve(ports), handle="acme")
    store_revocations(ports, made.id, MANY)
    publication.publish(ports, made.operator, compare_all=True)
    get(made, accept_encoding="gzip")
    publication.publish(ports, made.operator)
    return made


def get(tenant: Tenant, method: str = "GET", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return tenant.authorizer.request(method, SIGNED, headers=named)


def body_of(tenant: Tenant) -> bytes:
    return in_force.read_srl_body(tenant.ports, in_force.read_srl_head(tenant.ports, tenant.id))


# --- where lists are files ---


def test_a_long_list_is_the_answer_where_lists_are_files(tenant: Tenant) -> None:
    """SRL-19, F121b: On one machine a list of any length is returned with 200."""
    answer, body = get(tenant), body_of(tenant)
    assert (answer.status_code, answer.content) == (200, body)
    assert len(body) > 5_000
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(body))
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["x-srl-key-id"]
    assert get(tenant, if_none_match=answer.headers["etag"]).status_code == 304


def test_a_long_list_is_sent_in_pieces(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """F122a: A long list is sent in pieces."""
    monkeypatch.setattr(RangeResponse, "chunk_size", 1_000)
    sent: list[int] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(len(message.get("body", b"")))

    headers = asgi.bearer(tenant.authorizer.secret)
    app = tenant.authorizer.http.app

    async def chunked(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, _once(receive), send)

    asgi.run(chunked(asgi.request_scope("GET", SIGNED, headers), receive, send))
    assert sum(sent) == len(body_of(tenant))
    assert max(sent) <= 1_000


def _once(receive: Any) -> Any:
    """An empty body, and then what `receive` gives."""
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive_once() -> Any:
        return next(asked, None) or await receive()

    return receive_once


def test_a_part_of_a_long_list(tenant: Tenant) -> None:
    """A download that broke off goes on from where it was (RFC 9110, 14)."""
    body = body_of(tenant)
    for asked, first, last in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=1000-", 1000, None),
        ("bytes=-10", -10, None),
        ("bytes=5-999999999", 5, None),
    ):
        answer = get(tenant, range=asked)
        assert (answer.status_code, answer.content) == (206, body[first:last])
        start = first % len(body)
        end = start + len(answer.content) - 1
        assert answer.headers["content-range"] == f"bytes {start}-{end}/{len(body)}"
        assert answer.headers["etag"] == get(tenant).headers["etag"]


OTHER_RANGES = ["bytes=9999999-", "bytes=7-3", "bytes=-0", "bytes=", "bytes", "lines=1-2", ""]
OTHER_RANGES += ["bytes=a-b", "bytes=0-1,3-4", "bytes=-", "bytes=0-9" + "9" * 20]


def test_any_other_range_is_answered_with_all(tenant: Tenant) -> None:
    """A server may ignore a range: no answer has another shape than the contract knows."""
    for asked in OTHER_RANGES:
        answer = get(tenant, range=asked)
        assert (answer.status_code, answer.content) == (200, body_of(tenant)), asked


def test_a_part_of_another_list_is_not_mixed_in(tenant: Tenant) -> None:
    """With If-Range, a part is sent of the list that the caller has, or else all of the new one."""
    etag = get(tenant).headers["etag"]
    assert get(tenant, range="bytes=5-", if_range=etag).status_code == 206
    publication.publish(tenant.ports, tenant.operator)
    answer = get(tenant, range="bytes=5-", if_range=etag)
    assert (answer.status_code, answer.content) == (200, body_of(tenant))


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_head_of_a_long_list(
    tenant: Tenant, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HEAD has the headers of GET, and reads nothing; a range has no meaning for it."""
    expected = get(tenant, accept_encoding=encoding)
    monkeypatch.setattr(Path, "open", _unread)
    monkeypatch.setattr("anyio.open_file", _unread)
    answer = get(tenant, "HEAD", accept_encoding=encoding, range="bytes=0-5")
    assert (answer.status_code, answer.content) == (200, b"")
    ignored = {"x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset"}
    for name in set(expected.headers) - ignored:
        assert answer.headers[name] == expected.headers[name], name


def _unread(*_: object, **__: object) -> None:
    pytest.fail("a file is read")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("damage", [b"", b"{}"])
def test_a_long_list_that_is_damaged_is_not_sent(
    tenant: Tenant, tmp_path: Path, damage: bytes, *, packed: bool
) -> None:
    """F122b: A list that is missing or damaged on the disk is answered with 503."""
    form = in_force.read_srl_head(tenant.ports, tenant.id).form(is_gzip=packed)
    blob = tmp_path / "blobs" / form.blob
    accept = {"accept_encoding": "gzip"} if packed else {}
    assert get(tenant, **accept).status_code == 200
    blob.write_bytes(damage) if damage else blob.unlink()
    answer = get(tenant, **accept)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


# --- packed ---


def test_a_long_list_is_packed_for_those_who_take_it(tenant: Tenant) -> None:
    """SRL-18, F123a: A caller that accepts gzip gets a compressed list with its own validator."""
    plain, packed = get(tenant), get(tenant, accept_encoding="br, gzip")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    # The client has unpacked it.
    assert packed.content == plain.content == body_of(tenant)
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.headers["etag"] != plain.headers["etag"]
    for answer in (plain, packed):
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["etag"].startswith('"')


def test_not_modified_is_said_of_the_form_that_is_held(tenant: Tenant) -> None:
    """F123b: 304 is returned only for the form of the list that the caller holds."""
    plain = get(tenant).headers["etag"]
    packed = get(tenant, accept_encoding="gzip").headers["etag"]
    for held, accept, status in (
        (plain, "identity", 304),
        (packed, "gzip", 304),
        (packed, "identity", 200),
        (plain, "gzip", 200),
    ):
        answer = get(tenant, accept_encoding=accept, if_none_match=held)
        assert (answer.status_code, answer.headers["vary"]) == (status, "Accept-Encoding")
        assert answer.headers["etag"] == (packed if accept == "gzip" else plain)


PACKED = ["gzip", "GZIP", "gzip;q=0.001", "gzip; q=1.000", "br;q=1, gzip;q=0.5", "*;q=0, gzip"]
PACKED += ["gzip;q=0.5, identity;q=0.5", "identity;q=0, gzip", "deflate,gzip , br", "zstd,gzip"]
PLAIN = ["", "identity", "*", "gzip;q=0", "gzip;q=0.000", "br", "xgzip", "gzip;q=2", "gzip;q=x"]
PLAIN += ["gzip;q=0.4, identity;q=0.5", "gzip;q=", "identity;q=0"]


def test_what_a_caller_takes(tenant: Tenant) -> None:
    """F123: gzip is sent to those who name it and do not prefer none (RFC 9110, 12.5.3)."""
    for accept in (*PACKED, *PLAIN):
        answer = get(tenant, "HEAD", accept_encoding=accept)
        assert ("content-encoding" in answer.headers) == (accept in PACKED), accept


def test_a_short_list_is_not_packed(ports: Ports) -> None:
    """Below 16 KiB a list has one form, whatever the caller takes."""
    tenant = Tenant(ports, serve(ports), handle="acme")
    plain, asked = get(tenant), get(tenant, accept_encoding="gzip")
    assert "content-encoding" not in asked.headers
    assert asked.headers["etag"] == plain.headers["etag"]
    assert list(ports.blobs.names(packed_folder(tenant.id))) == []


def test_a_list_is_packed_if_somebody_asks_for_that(tenant: Tenant, clock: Clock) -> None:
    """SRL-18, F589a: Lists have a packed form from the list after a request for one on.

    The request is noted at most once a day, and counts for two days at least.
    """

    def published() -> SrlHead:
        return publication.publish(tenant.ports, tenant.operator)

    clock.advance(hours=47)
    assert published().packed
    # That counts no longer, and the reader before has not come again.
    clock.advance(hours=25)
    head = published()
    assert head.form(is_gzip=True) == head.form()
    assert "content-encoding" not in get(tenant, accept_encoding="gzip").headers
    noted = in_force.read_srl_head(tenant.ports, tenant.id)
    assert noted == replace(head, packs_until=clock() + timedelta(days=3))
    clock.advance(hours=23)
    get(tenant, accept_encoding="gzip")
    assert in_force.read_srl_head(tenant.ports, tenant.id) == noted
    clock.advance(hours=1)
    get(tenant, accept_encoding="gzip")
    assert in_force.read_srl_head(tenant.ports, tenant.id) == replace(
        noted, packs_until=clock() + timedelta(days=3)
    )
    assert published().packed


def test_a_request_for_gzip_changes_no_other_head(tenant: Tenant, clock: Clock) -> None:
    """F589b: A list that is published while a request notes that it wants gzip stays in force."""
    clock.advance(days=4)
    publication.publish(tenant.ports, tenant.operator)
    made: list[SrlHead] = []

    def meanwhile(call: Call) -> Any:
        if call.verb == "write" and not made:
            made.append(publication.publish(tenant.ports, tenant.operator))
        return call()

    ports = replace(tenant.ports, store=Intercepted(tenant.ports.store, meanwhile))
    srl.current(ports, tenant.operator, is_gzip=True)
    assert in_force.read_srl_head(tenant.ports, tenant.id) == made[0]


def test_what_is_packed_goes_with_its_list(tenant: Tenant, clock: Clock) -> None:
    """F119: old lists are removed in each form, and with their states and bases."""
    for _ in range(4):
        clock.advance(hours=2)
        publication.publish(tenant.ports, tenant.operator)
    names = [list(tenant.ports.blobs.names(each)) for each in folders(tenant.id)]
    assert [len(each) for each in names] == [3, 3, 3, 3]


# --- on Lambda ---


@dataclass(frozen=True)
class World:
    """Functions on what the environment names, and an admin of its one tenant."""

    ports: Ports
    head: SrlHead
    admin: Caller

    def get(self, method: str = "GET", **headers: str) -> Answer:
        named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return self.admin.call(handler.handler, method, SIGNED, headers=named)


@pytest.fixture
def on_lambda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The functions with their lists in a bucket, and a long list."""
    data_folder.prepare(tmp_path)
    with aws() as account:
        settings = data_folder.environment(tmp_path) | {"RESCIND_BLOBS": f"s3:{account.bucket}"}
        with _world(settings, monkeypatch) as world:
            yield world


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The functions as Lambda calls them, on files."""
    data_folder.prepare(tmp_path)
    with _world(data_folder.environment(tmp_path), monkeypatch) as world:
        yield world


@contextmanager
def _world(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with chosen(settings, monkeypatch) as ports:
        tenant, created = onboarding.create_tenant(ports, handle="acme")
        store_revocations(ports, tenant.tenant_id, MANY)
        operator = onboarding.operator(ports, handle="acme")
        publication.publish(ports, operator, compare_all=True)
        srl.current(ports, operator, is_gzip=True)
        head = publication.publish(ports, operator)
        yield World(ports, head, Caller(Request.http_api, created.secret))


@pytest.mark.parametrize("accept", ["identity", "gzip"])
def test_a_long_list_is_fetched_elsewhere_on_lambda(
    on_lambda: World, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    """SRL-19, F121a: The 307 for a long list has its validator, and 304 is answered for it."""
    monkeypatch.setattr(bodies, "ANSWER_MAX", 100)
    answer = on_lambda.get(accept_encoding=accept)
    form = on_lambda.head.form(is_gzip=accept == "gzip")
    assert (answer.status, answer.body) == (307, b"")
    assert answer.headers["etag"] == form.etag
    assert answer.headers["x-srl-key-id"] == on_lambda.head.key_id
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in answer.headers
    stored = requests.get(answer.headers["location"], timeout=60)
    assert stored.content == in_force.read_srl_body(on_lambda.ports, on_lambda.head)
    assert stored.headers["content-type"] == "application/json"
    assert stored.headers["cache-control"] == "private, no-cache"
    assert stored.headers.get("content-encoding") == form.encoding
    again = on_lambda.get(accept_encoding=accept, if_none_match=form.etag)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", form.etag)


def test_a_packed_list_passes_through_lambda(
    with_files: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SRL-19, F27a, F123c: A list up to 4 MiB passes through Lambda, a longer one is a 307.

    A compressed one passes unchanged, in base64.
    """
    assert ANSWER_MAX == 4 * 1024 * 1024
    packed_size = with_files.head.packed_size or 0
    assert with_files.head.size > 5_000 > packed_size
    answer = with_files.get(accept_encoding="gzip")
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    body = gzip.decompress(answer.body)
    assert body == in_force.read_srl_body(with_files.ports, with_files.head)
    assert len(json.loads(body)["payload"]["RevokedIDs"]) == MANY
    for accept, size in (("identity", with_files.head.size), ("gzip", packed_size)):
        for most, status in ((size, 200), (size - 1, 307)):
            monkeypatch.setattr(bodies, "ANSWER_MAX", most)
            assert with_files.get(accept_encoding=accept).status == status


def test_a_long_native_list_is_fetched_elsewhere_on_lambda(
    on_lambda: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATIVE-1, F275b: On Lambda a long native list is at another address, without the key."""
    monkeypatch.setattr(bodies, "ANSWER_MAX", 100)
    path = "/compat/tenuo/v1/revocations/srl/signed"
    answer = on_lambda.admin.call(authorizers.handler, "GET", path)
    assert (answer.status, answer.body) == (307, b"")
    listed = requests.get(answer.headers["location"], timeout=60)
    assert listed.headers["content-type"] == "application/json"
    monkeypatch.setattr(bodies, "ANSWER_MAX", 10_000_000)
    assert on_lambda.admin.call(authorizers.handler, "GET", path).body == listed.content
    assert listed.json()["version"] >= 1
