"""Token Status Lists over HTTP (TOKEN-5 to TOKEN-8), as issuers and verifiers meet them."""

import base64
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from functions.status_lists import handler
from functions.status_lists import operations as status_lists
from functions.status_lists import records as model
from functions.trust import documents, publishing
from shared.authorizer.formats.ed25519 import is_signed
from shared.authorizer.formats.trust import KeyUse
from shared.errors import OutOfSpace, ReadOnly, Unavailable
from shared.model.lists.head import head_address
from shared.operations.changes import revocations
from shared.operations.lists import in_force, publication
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, VersionIs
from shared.web.app import create_app
from shared.web.gate import PublicMiddleware
from shared.web.strangers import AnonymousLimiter
from tests.kit.api import Instance, Tenant
from tests.kit.faults import Script, raises, scripted
from tests.kit.lambda_events import load
from tests.kit.roots import SeedRoot
from tests.kit.worlds import Clock

PATH = "/v1/status-lists"


@dataclass
class Verifier:
    """Somebody without a key, who knows the address of a list."""

    http: Instance
    path: str

    def get(self, path: str = "", *, method: str = "GET", **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.request(method, path or self.path, headers=named)

    def claims(self) -> Any:
        answer = self.get()
        assert answer.status_code == 200, answer.text
        return _part(answer.content, 1)

    def revoked(self) -> set[int]:
        """The entries whose bit is set, counted as the draft says, 4.1."""
        packed = self.claims()["status_list"]
        assert packed["bits"] == 1
        bits = zlib.decompress(_bytes(packed["lst"]))
        assert len(bits) == 2**20 // 8
        return {at * 8 + bit for at, each in enumerate(bits) for bit in range(8) if each >> bit & 1}

    def jwks(self) -> Any:
        answer = self.get(f"{PATH}/jwks.json?list={self.path.rpartition('/')[2]}")
        assert answer.status_code == 200, answer.text
        return answer.json()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def _part(jwt: bytes, number: int) -> Any:
    return json.loads(_bytes(jwt.decode().split(".")[number]))


def verifying(ports: Ports, path: str = PATH) -> Verifier:
    limits = PublicMiddleware(AnonymousLimiter(ports.now), tuple, {"Cache-Control": "no-store"})
    return Verifier(Instance(partial(limits.answer, handler.PublicLists(lambda: ports))), path)


def create(tenant: Tenant, **more: str) -> Any:
    answer = tenant.admin.post(PATH, json={"name": "badges", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def entries(tenant: Tenant, made: Any, number: int = 1) -> list[int]:
    answer = tenant.admin.post(f"{PATH}/{made['id']}/entries", json={"count": number})
    assert answer.status_code == 201, answer.text
    assert answer.json()["uri"] == made["uri"]
    found: list[int] = answer.json()["indexes"]
    return found


def warrant(made: Any, index: object) -> str:
    return f"svc_wrt_tsl-{made['id'].rpartition('_')[2]}-{index}"


@dataclass
class Place:
    """A tenant with a list, and its verifier."""

    tenant: Tenant
    made: Any
    verifier: Verifier

    def revoke(self, index: object) -> str:
        revocation_id = self.tenant.revoke(warrant(self.made, index))
        self.publish()
        return revocation_id

    def publish(self) -> None:
        assert self.tenant.admin.post("/v1/revocations/srl/regenerate").status_code == 200


@pytest.fixture
def place(tenant: Tenant) -> Place:
    made = create(tenant)
    return Place(tenant, made, verifying(tenant.ports, f"{PATH}/{made['id']}"))


def test_an_entry_is_revoked_as_a_warrant(place: Place) -> None:
    """TOKEN-7, F1450a: A bit is set while the list in force names its entry, and no other is.

    Whether it was revoked alone or in a batch, and until it is taken back.
    """
    one, two, three = entries(place.tenant, place.made, 3)
    assert place.verifier.revoked() == set()
    revocation = place.revoke(one)
    assert place.verifier.revoked() == {one}
    body = {"action": "revoke", "warrant_ids": [warrant(place.made, two)], "reason": "lost"}
    assert place.tenant.admin.post("/v1/revocations/batch", json=body).status_code == 200
    place.tenant.admin.delete(f"/v1/revocations/{revocation}")
    assert place.verifier.revoked() == {one}, "the list in force still says so"
    place.publish()
    assert place.verifier.revoked() == {two}
    check = place.tenant.authorizer.get(
        f"/v1/revocations/check?warrant_id={warrant(place.made, three)}"
    )
    assert check.json()["revoked"] is False


def test_the_signed_list(place: Place) -> None:
    """TOKEN-7, F1450b: The list has the header and claims of the draft; it ends with the SRL."""
    answer = place.verifier.get()
    payload = place.tenant.admin.get("/v1/revocations/srl").json()["payload"]
    head = in_force.read_srl_head(place.tenant.ports, place.tenant.id)
    (jwk,) = place.verifier.jwks()["keys"]
    assert answer.headers["content-type"] == "application/statuslist+jwt"
    expected = {"alg": "EdDSA", "kid": jwk["kid"], "typ": "statuslist+jwt"}
    assert _part(answer.content, 0) == expected
    claims = _part(answer.content, 1)
    assert claims.pop("status_list").keys() == {"bits", "lst"}
    assert claims == {
        "sub": place.made["uri"],
        "iat": int(head.issued_at.timestamp()),
        "exp": int(head.expires_at.timestamp()),
        "ttl": 60,
    }
    assert payload["Version"] == head.version
    signed, _, signature = answer.content.rpartition(b".")
    assert jwk["crv"] == "Ed25519"
    assert is_signed(signed, _bytes(signature.decode()), public_key=_bytes(jwk["x"]))


@pytest.mark.parametrize("index", [2**20, 2**63, "00", "01", "1_0", "-1", "x", "", "4711-1"])
def test_what_is_no_entry(place: Place, index: object) -> None:
    """TOKEN-7, F1450c: A revoked identifier that names no entry of the list sets no bit."""
    place.revoke(index)
    place.revoke(2**20 - 1)
    assert place.verifier.revoked() == {2**20 - 1}


def test_another_tenant_revokes_nothing(place: Place, other_tenant: Tenant) -> None:
    """TOKEN-7, F1450d: Entries are revoked by the tenant of the list alone, and by their list."""
    other_tenant.revoke(warrant(place.made, 5))
    other_tenant.admin.post("/v1/revocations/srl/regenerate")
    second = create(place.tenant)
    place.revoke(6)
    assert place.verifier.revoked() == {6}
    assert verifying(place.tenant.ports, f"{PATH}/{second['id']}").revoked() == set()


def test_anybody_may_ask(place: Place) -> None:
    """TOKEN-7, F1451a: A list is answered without a key, to any page, and may be cached."""
    answer = place.verifier.get()
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["x-ratelimit-limit"] == "1000"
    etag = answer.headers["etag"]
    again = place.verifier.get(if_none_match=etag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    head = place.verifier.get(method="HEAD")
    assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))
    asked = place.verifier.get(method="OPTIONS", access_control_request_method="GET")
    assert (asked.status_code, asked.headers["access-control-allow-methods"]) == (204, "GET, HEAD")
    place.publish()
    assert place.verifier.get(if_none_match=etag).status_code == 200


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("", "POST", {}, (405, "method_not_allowed")),
        ("", "GET", {"accept": "application/statuslist+cwt"}, (406, "not_acceptable")),
        ("", "GET", {"accept": "application/statuslist+jwt;q=0"}, (406, "not_acceptable")),
        ("", "GET", {"accept": "*/*;q=0.0"}, (406, "not_acceptable")),
        ("", "GET", {"accept": "*/*, application/statuslist+jwt;q=0"}, (406, "not_acceptable")),
        ("", "GET", {"accept": "application/*;q=0, */*"}, (406, "not_acceptable")),
        ("?time=1795262000", "GET", {}, (501, "not_supported")),
        ("?page=1", "GET", {}, (400, "invalid_request")),
        (f"{PATH}/svc_tsl_01kbm4xt3rfz8c5w7y2q9n6d1e", "GET", {}, (404, "not_found")),
        (f"{PATH}/other", "GET", {}, (404, "not_found")),
        (f"{PATH}/jwks.json", "GET", {}, (400, "invalid_request")),
        (f"{PATH}/jwks.json?list=a&list=b", "GET", {}, (400, "invalid_request")),
        (f"{PATH}/jwks.json?list=other", "GET", {}, (404, "not_found")),
    ],
)
def test_what_verifiers_are_refused(
    place: Place, path: str, method: str, headers: dict[str, str], status: tuple[int, str]
) -> None:
    """TOKEN-7, F1451b, F2223a: A refusal has the form of the contract; any page can read it."""
    whole = path if path.startswith("/") else f"{place.verifier.path}{path}"
    answer = place.verifier.get(whole, method=method, **headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == status
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "accept",
    [
        *("application/statuslist+jwt", "text/html, */*;q=0.1", "Application/StatusList+JWT;q=0.9"),
        *("*/*;q=0, application/statuslist+jwt", "application/statuslist+jwt;version=1;q=0.5"),
    ],
)
def test_what_verifiers_accept(place: Place, accept: str) -> None:
    """TOKEN-7, F2223b: A verifier that accepts the JWT gets it, also if it prefers another type.

    Caches keep the answers to other headers apart.
    """
    answer = place.verifier.get(accept=accept)
    assert (answer.status_code, answer.headers["vary"]) == (200, "Accept")
    same = place.verifier.get(accept=accept, if_none_match=answer.headers["etag"])
    assert (same.status_code, same.headers["vary"]) == (304, "Accept")


def test_the_end(place: Place, clock: Clock) -> None:
    """TOKEN-7, F1452a: No list is answered after the end of the one in force, nor cached for it.

    The next list in force heals it.
    """
    clock.advance(seconds=3600 - 20)
    assert place.verifier.get().headers["cache-control"] == "public, max-age=20"
    clock.advance(seconds=20)
    answer = place.verifier.get()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["access-control-allow-origin"] == "*"
    place.publish()
    assert place.verifier.revoked() == set()


def _lost_head(place: Place) -> None:
    ports = place.tenant.ports
    ports.store.write(Delete(head_address(place.tenant.id), Expect.PRESENT))


def _lost_signer(place: Place) -> None:
    ports = place.tenant.ports
    ports.store.write(Delete(model.signer_address(place.tenant.id), Expect.PRESENT))


def _lost_seed(place: Place) -> None:
    ports, address = place.tenant.ports, model.signer_address(place.tenant.id)
    item = dict(ports.store.get(address) or {})
    ports.store.write(Put(address, {**item, "sealed_seed": b"x" * 60}, Expect.PRESENT))


def _altered_list(place: Place) -> None:
    ports = place.tenant.ports
    path = _file(ports, in_force.read_srl_head(ports, place.tenant.id).blob)
    path.write_bytes(path.read_bytes().replace(b"svc_wrt_tsl", b"svc_wrt_tsx"))


def _file(ports: Ports, name: str) -> Path:
    found = ports.blobs.get_file(name, sha256=name.rpartition("-")[2].partition(".")[0])
    assert found is not None
    return found


@pytest.mark.parametrize("fails", [_lost_head, _lost_signer, _lost_seed, _altered_list])
def test_a_fault_is_never_an_empty_list(place: Place, fails: Callable[[Place], None]) -> None:
    """TOKEN-7, F1452b: If what a list is made of cannot be read, the answer is 503."""
    place.revoke(7)
    fails(place)
    answer = place.verifier.get()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers


def test_everybody_makes_the_same_list(place: Place, tmp_path: Path, clock: Clock) -> None:
    """TOKEN-7, F1453a: Processes that make one list make the same bytes, kept or not.

    A damaged or older one that is kept in its place is not served.
    """
    ports, before = place.tenant.ports, place.verifier.get()
    clock.advance(seconds=1)
    place.revoke(8)
    of, made = status_lists.make(ports, place.made["id"])
    assert place.verifier.get().content == made
    path = tmp_path / "blobs" / of.blob
    for damaged in (b"", b"a.b.c", made[:-1], made.replace(b".", b".e", 1), before.content, None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        assert place.verifier.get().content == made
    assert place.verifier.get().headers["etag"] != before.headers["etag"]


@dataclass
class Refusing(Script):
    """Blobs cannot be put."""

    error: Exception = field(default_factory=OutOfSpace)

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        if name == "put":
            raise self.error
        return super().run(name, call)


@pytest.mark.parametrize("error", [OutOfSpace(), ReadOnly()], ids=["full disk", "read-only"])
def test_what_cannot_be_kept_is_served(place: Place, error: Exception) -> None:
    """TOKEN-7, F1453b: A process that may not or cannot write serves the same lists."""
    place.revoke(9)
    refusing = scripted(place.tenant.ports, Refusing(error=error))
    assert verifying(refusing, place.verifier.path).revoked() == {9}
    assert not list(place.tenant.ports.blobs.names(f"status/{place.tenant.id}"))


@pytest.mark.slow_on("True")
@pytest.mark.parametrize("is_late", [False, True])
def test_any_step_may_fail(place: Place, is_late: bool) -> None:
    """TOKEN-7, F1452c: Whichever step fails, the answer is 503 or right, and the next is right."""
    for step in count():
        place.revoke(step)
        script = Script()
        (script.after if is_late else script.before)[step] = raises(Unavailable())
        answer = verifying(scripted(place.tenant.ports, script), place.verifier.path).get()
        assert answer.status_code in {200, 503}
        assert place.verifier.revoked() == {*range(step + 1)}
        if step >= len(script.calls):
            break
        assert answer.status_code == 503 or script.calls[step] == "put"
    assert step > 4


def revoked_inside(place: Place, index: int) -> None:
    """Without a request, which cannot begin within another one here."""
    ports, operator = place.tenant.ports, place.tenant.operator
    revocations.create(ports, operator, warrant_id=warrant(place.made, index), reason="r")
    publication.publish(ports, operator)


@pytest.mark.slow
def test_a_list_that_is_published_meanwhile(place: Place) -> None:
    """TOKEN-7, F1452d: At any step another list may come into force: the answer is of one whole.

    It is that of the list before or of the one after, and nothing older is answered later.
    """
    for step in count():
        place.revoke(2 * step)
        script = Script({step: partial(revoked_inside, place, 2 * step + 1)})
        found = verifying(scripted(place.tenant.ports, script), place.verifier.path).revoked()
        if step >= len(script.calls):
            break
        after = {*range(2 * step + 2)}
        assert found in (after - {2 * step + 1}, after)
        assert place.verifier.revoked() == after
    assert step > 4


def test_old_signed_lists_are_removed(place: Place, tmp_path: Path) -> None:
    """F1453c: On one machine, signed lists of earlier versions do not stay."""
    folder = model.StatusListContent(
        status_lists.every(place.tenant.ports, place.tenant.operator)[0],
        in_force.read_srl_head(place.tenant.ports, place.tenant.id),
        status_lists.signer_of(place.tenant.ports, place.made["id"]),
    ).folder
    for _ in range(3):
        place.publish()
        place.verifier.claims()
        for each in (tmp_path / "blobs" / folder).iterdir():
            os.utime(each, (0, 0))
    assert len(list((tmp_path / "blobs" / folder).iterdir())) == 1


# --- entries ---


def test_entries_are_given_once(place: Place) -> None:
    """TOKEN-6, F1454a: No entry is given out twice, and the order of none can be seen."""
    given = [
        each for count in (1, 200, 10_000) for each in entries(place.tenant, place.made, count)
    ]
    assert len(set(given)) == len(given) == 10_201
    assert all(0 <= each < 2**20 for each in given)
    second = create(place.tenant)
    assert entries(place.tenant, second, 200) != given[1:201]
    # Indexes that follow one another are as far apart as those of a random order.
    apart = [abs(one - other) for one, other in pairwise(given)]
    assert 0.9 < 3 * sum(apart) / len(apart) / 2**20 < 1.1
    assert (place.tenant.read_only.get(PATH).json()["status_lists"][1])["allocated"] == 10_201


def test_a_full_list(place: Place) -> None:
    """TOKEN-6, F1454b: If fewer entries are left, nothing is given out; the last ones are."""
    found = status_lists.every(place.tenant.ports, place.tenant.operator)[0]
    nearly = replace(found, allocated=2**20 - 2, version=2)
    place.tenant.ports.store.write(Put(found.address, nearly.to_item(), VersionIs(1)))
    path = f"{PATH}/{found.id}/entries"
    answer = place.tenant.admin.post(path, json={"count": 3})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "quota_exceeded")
    assert "2 entries left" in answer.json()["error"]["message"]
    assert len(entries(place.tenant, place.made, 2)) == 2
    assert place.tenant.admin.post(path, json={"count": 1}).status_code == 409


@pytest.mark.parametrize("number", [0, -1, 10_001, True, "5", 1.0, None])
def test_counts_that_are_refused(place: Place, number: object) -> None:
    """TOKEN-6: An allocation has a whole number of entries, 1 to 10,000."""
    answer = place.tenant.admin.post(f"{PATH}/{place.made['id']}/entries", json={"count": number})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_a_repeated_allocation(place: Place) -> None:
    """TOKEN-6, API-30, F1454c: A repetition under one `Idempotency-Key` gives the same entries."""
    path, headers = f"{PATH}/{place.made['id']}/entries", {"Idempotency-Key": "once"}
    first, again = (
        place.tenant.admin.post(path, json={"count": 5}, headers=headers) for _ in range(2)
    )
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert set(entries(place.tenant, place.made, 5)).isdisjoint(first.json()["indexes"])


def test_the_quota_of_lists(tenant: Tenant) -> None:
    """TOKEN-5, F1455a: A tenant has at most 100 lists."""
    made = [create(tenant)["id"] for _ in range(100)]
    answer = tenant.admin.post(PATH, json={"name": "more"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    shown = tenant.read_only.get(PATH).json()["status_lists"]
    assert [each["id"] for each in shown] == made[::-1]


@pytest.mark.parametrize(
    ("given", "base"),
    [
        (None, "http://testserver"),
        ("https://rescind.example/", "https://rescind.example"),
        ("https://[2001:db8::1]:8443/auth/v2", "https://[2001:db8::1]:8443/auth/v2"),
    ],
)
def test_the_address_of_a_list(tenant: Tenant, given: str | None, base: str) -> None:
    """TOKEN-5, F1455b: A list has the address that its creation says, or that of the request."""
    made = create(tenant, **({} if given is None else {"url": given}))
    assert made["uri"] == f"{base}{PATH}/{made['id']}"
    assert verifying(tenant.ports, f"{PATH}/{made['id']}").claims()["sub"] == made["uri"]


@pytest.mark.parametrize(
    ("host", "is_taken"),
    [
        *(("rescind.example", False), ("10.0.0.5:8080", False), ("[2001:db8::1]", False)),
        *(("localhost:8080", True), ("127.0.0.1:8080", True), ("[::1]:8080", True)),
        *(("rescind:8080", True), ("127.0.0.1.example", False)),
    ],
)
def test_a_proxy_that_ends_tls(tenant: Tenant, host: str, is_taken: bool) -> None:
    """TOKEN-5, F2226a: A request by http gives a list no address that others may reach by https."""
    headers = {"Host": host}
    answer = tenant.admin.post(PATH, json={"name": "badges"}, headers=headers)
    assert answer.status_code == (201 if is_taken else 400)
    if not is_taken:
        assert answer.json()["error"]["message"].startswith("url: is required")
        given = {"name": "badges", "url": "https://rescind.example"}
        assert tenant.admin.post(PATH, json=given, headers=headers).status_code == 201


def test_the_address_on_lambda(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOKEN-5, F1455c: On AWS it is the domain that the caller used, with the base path."""
    monkeypatch.setenv("RESCIND_BASE_PATH", "auth")
    plain, event = create_app(handler.routes, ports=lambda: tenant.ports), load("http_api")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await plain({**scope, "aws.event": event}, receive, send)

    headers = {"Authorization": f"Bearer {tenant.admin.secret}"}
    made = Instance(app).request("POST", PATH, headers=headers, json={"name": "badges"}).json()
    domain = event["requestContext"]["domainName"]
    assert made["uri"] == f"https://{domain}/auth{PATH}/{made['id']}"


@pytest.mark.parametrize(
    "url", ["rescind.example", "ftp://a.example", "https://a.example?x", "https://a b", "", 5]
)
def test_addresses_that_are_refused(tenant: Tenant, url: object) -> None:
    """TOKEN-5: An address has a scheme and a host, and neither query nor fragment."""
    answer = tenant.admin.post(PATH, json={"name": "badges", "url": url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


# --- the signer ---


def test_the_signer_is_replaced(place: Place) -> None:
    """TOKEN-8, F1456a: After a rotation, lists and keys are those of the new signer at once."""
    place.revoke(10)
    before, (old,) = place.verifier.get(), place.verifier.jwks()["keys"]
    answer = place.tenant.admin.post(f"{PATH}/keys/rotate")
    assert answer.status_code == 200, answer.text
    (new,) = place.verifier.jwks()["keys"]
    assert new["kid"] == answer.json()["key_id"] != old["kid"]
    assert new["x"] != old["x"]
    after = place.verifier.get(if_none_match=before.headers["etag"])
    assert _part(after.content, 0)["kid"] == new["kid"]
    assert place.verifier.revoked() == {10}
    assert len(place.tenant.read_only.get(PATH).json()["status_lists"]) == 1


def test_trust_documents_name_the_signer(place: Place) -> None:
    """TOKEN-8, TRUST-16, F1456b: The next trust document names the signer of status lists."""
    ports = replace(place.tenant.ports, root=SeedRoot(1))
    for _ in range(2):
        publishing.keep(ports, place.tenant.id)
        head = documents.read_head(ports, place.tenant.id)
        assert head is not None
        named = documents.read_document(ports, place.tenant.id, head.version).document.keys_for_use(
            KeyUse.STATUS
        )
        (jwk,) = place.verifier.jwks()["keys"]
        assert named == (_bytes(jwk["x"]),)
        place.tenant.admin.post(f"{PATH}/keys/rotate")
