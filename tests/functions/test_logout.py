"""Back-channel logout of identity providers (TOKEN-12)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network
from typing import Any
from urllib.parse import urlencode

import pytest

from shared.errors import Unavailable
from shared.model.callers import Scope
from shared.model.identifiers import token_id
from shared.model.identities.claims import SignInRefused
from shared.model.identities.providers import ProviderUsage
from shared.operations.access import service_accounts
from shared.operations.identities import identity_providers
from shared.operations.identities.identity_providers import ProviderChange
from shared.ports import Ports
from shared.web.gate import PublicMiddleware
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter
from tests.kit import identities, issuers
from tests.kit.api import Client, Instance, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.intercepted import Call, Intercepted
from tests.kit.issuers import ISSUER, KEYS_URI, Answers
from tests.kit.worlds import Clock


@dataclass
class Place:
    """A tenant with a provider of people, and the function that serves its logouts."""

    tenant: Tenant
    ports: Ports
    outside: Answers
    provider_id: str

    def http(self, ports: Ports | None = None) -> Instance:
        proxies = [IPv4Network("203.0.113.1/32")]
        limits = PublicMiddleware(AnonymousLimiter(self.ports.now), lambda: proxies, {})
        return Instance(partial(limits.answer, SignIn(lambda: ports or self.ports)))

    def token(self, aud: Any = "rescind", **said: Any) -> str:
        return identities.logout_token(self.ports, aud, **said)

    def send(self, token: str, provider_id: str = "", http: Instance | None = None) -> Any:
        return self.post(urlencode({"logout_token": token}).encode(), provider_id, http)

    def post(self, content: bytes, provider_id: str = "", http: Instance | None = None) -> Any:
        path = f"/v1/logout/{provider_id or self.provider_id}"
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Forwarded-For": "203.0.113.1",
        }
        return (http or self.http()).request("POST", path, content=content, headers=headers)

    def signed_in(self, sub: str = "alice", provider_id: str = "", **said: Any) -> Client:
        claims = {"sub": sub, "email": f"{sub}@example.com", **said}
        made = identities.exchanged(self.ports, provider_id or self.provider_id, **claims)
        return self.tenant.holding(made.secret)

    def is_revoked(self, kind: str, value: str, before: int | None = None) -> bool:
        query = {"token_kind": kind, "token_issuer": ISSUER, "token_value": value}
        more = {} if before is None else {"token_issued_before": str(before)}
        answer = self.tenant.admin.get(f"/v1/revocations/check?{urlencode(query | more)}")
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["revoked"])

    def revocations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tenant.admin.get("/v1/revocations").json()["revocations"]
        return found


@pytest.fixture
def place(tenant: Tenant) -> Place:
    outside = identities.published()
    ports = replace(tenant.ports, outbound=lambda: outside, sleep=lambda _: None)
    provider = identities.bound(ports, tenant.operator, jwks=None, token_exchange=True)
    return Place(tenant, ports, outside, provider.id)


def is_in(client: Client) -> bool:
    return bool(client.get("/v1/whoami").status_code == 200)


def test_a_logout_ends_a_session(place: Place) -> None:
    """F2600a, TOKEN-12: A logout with sid ends the sessions of that sign-in, and revokes its JWTs.

    Sessions of other sign-ins, people and providers stay.
    """
    values: dict[str, Any] = {"jwks": None, "token_exchange": True}
    other = identities.bound(place.ports, place.tenant.operator, **values)
    ended = [place.signed_in(sid="s-1"), place.signed_in(sid="s-1")]
    left = [
        place.signed_in(sid="s-2"),
        place.signed_in("bob", sid="s-3"),
        place.signed_in("carl", other.id, sid="s-1"),
    ]
    answer = place.send(place.token(sid="s-1"))
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["cache-control"] == "no-store"
    assert not any(map(is_in, ended))
    assert all(map(is_in, left))
    assert place.is_revoked("jwt-session", "s-1")
    assert not place.is_revoked("jwt-session", "s-2")
    assert not place.is_revoked("jwt-subject", "alice", 0)
    (made,) = place.revocations()
    assert made["warrant_id"] == token_id("jwt-session", ISSUER, "s-1")
    assert made["created_by"] == f"system+{place.provider_id}@acme.svc"
    assert made["reason"] == "Logout at SSO"
    assert (made["token_issuer"], made["token_value"]) == (ISSUER, "s-1")
    entries = audit_entries(place.tenant)[-3:]
    assert {each["actor"] for each in entries} == {made["created_by"]}
    assert sorted(each["action"] for each in entries) == [
        "revocation.create",
        "session.delete",
        "session.delete",
    ]
    assert entries[0]["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("sub", ["alice", None, "bob", "stranger"])
def test_a_logout_without_sub(place: Place, sub: str | None) -> None:
    """F2600b: The session is found by its sid, whatever the sub; a provider may use several.

    With sub, sessions of this person whose sid is unknown end, too.
    """
    by_sid, unknown, bob = place.signed_in(sid="s-1"), place.signed_in(), place.signed_in("bob")
    assert place.send(place.token(sid="s-1", sub=sub)).status_code == 200
    assert (is_in(by_sid), is_in(unknown), is_in(bob)) == (False, sub != "alice", sub != "bob")


def test_a_logout_of_a_person(place: Place, clock: Clock) -> None:
    """F2600c, TOKEN-12: A logout without sid ends all sessions of sub, and revokes earlier JWTs."""
    ended = [place.signed_in(sid="s-1"), place.signed_in()]
    bob = place.signed_in("bob")
    now = int(clock().timestamp())
    assert place.send(place.token()).status_code == 200
    assert not any(map(is_in, ended))
    assert is_in(bob)
    assert place.is_revoked("jwt-subject", "alice", now)
    assert not place.is_revoked("jwt-subject", "alice", now + 1)
    clock.advance(seconds=1)
    assert is_in(place.signed_in())
    assert place.send(place.token(sub="stranger")).status_code == 200
    assert place.is_revoked("jwt-subject", "stranger", now + 1)


def test_the_revocation_of_a_logout_ends(place: Place, clock: Clock) -> None:
    """F2600d, TOKEN-12: The revocation leaves the list after the longest lifetime of the JWTs.

    It is that of the issuer of tokens, or a day. An unbounded list would be the users' to fill.
    """
    assert place.send(place.token(sid="s-1")).status_code == 200
    values: dict[str, Any] = {"client_id": "api", "role_mappings": (), "token_max_seconds": 172_800}
    usage = ProviderUsage.VERIFY_ONLY
    identities.bound(place.ports, place.tenant.operator, usage, **values)
    assert place.send(place.token()).status_code == 200
    now = int(clock().timestamp())
    ends = {
        each["details"]["warrant_id"].split("-")[0]: each["details"]["warrant_expires_at"]
        for each in audit_entries(place.tenant)
        if each["action"] == "revocation.create"
    }
    assert now == 1795262400
    assert ends == {"svc_wrt_sid": "2026-11-22T12:00:00Z", "svc_wrt_sub": "2026-11-23T12:00:00Z"}


@pytest.mark.parametrize("sid", [7, "", "s" * 1025, "s\n1"])
def test_a_sid_without_an_identifier(place: Place, sid: Any) -> None:
    """F2873a, TOKEN-12: A sid without an identifier counts as none, at sign-in and at logout."""
    ended, bob = [place.signed_in(sid=sid), place.signed_in(sid="s-2")], place.signed_in("bob")
    answer = place.send(place.token(sid=sid))
    assert answer.status_code == 200, answer.text
    assert not any(map(is_in, ended))
    assert is_in(bob)
    (made,) = place.revocations()
    assert made["token_value"] == "alice"


@pytest.mark.parametrize("sub", [7, "", "a\nb", "s" * 256])
def test_a_sub_without_an_identifier(place: Place, sub: Any) -> None:
    """F2873b, TOKEN-9: Nobody signs in by a sub that no logout names. A usable sid still counts."""
    with pytest.raises(SignInRefused, match="sub"):
        place.signed_in(sub, email="alice@example.com")
    alice = place.signed_in(sid="s-1")
    assert place.send(place.token(sid="s-1", sub=sub)).status_code == 200
    assert not is_in(alice)
    assert place.is_revoked("jwt-session", "s-1")


def test_a_logout_can_be_unrevoked(place: Place) -> None:
    """F2600e: Administrators take the revocation of a logout back as any other one."""
    assert place.send(place.token(sid="s-1")).status_code == 200
    (made,) = place.revocations()
    revoker = place.tenant.client(Scope.REVOKER)
    assert revoker.delete(f"/v1/revocations/{made['id']}").status_code == 403
    assert place.tenant.admin.delete(f"/v1/revocations/{made['id']}").status_code == 204
    assert not place.is_revoked("jwt-session", "s-1")


_HOUR = 3600
REFUSED: dict[str, Callable[[Place, int], str]] = {
    "an ID token": lambda place, _: identities.token(place.ports, "rescind", sid="s-1"),
    "an ID token with sid of a logout": lambda place, _: place.token(events=None),
    "another event": lambda place, _: place.token(events={"http://other": {}}),
    "an event that is text": lambda place, _: place.token(
        events=dict.fromkeys(identities.LOGOUT, "x")
    ),
    "a nonce": lambda place, _: place.token(nonce="n"),
    "no jti": lambda place, _: place.token(jti=None),
    "no iat": lambda place, _: place.token(iat=None),
    "neither sub nor sid": lambda place, _: place.token(sub=None),
    "a sid that is no text": lambda place, _: place.token(sid=7, sub=None),
    "an empty sid": lambda place, _: place.token(sid="", sub=None),
    "neither of them with an identifier": lambda place, _: place.token(sid=7, sub="a\nb"),
    "another issuer": lambda place, _: place.token(iss="https://evil.example.com"),
    "another client": lambda place, _: place.token(aud="another"),
    "no audience": lambda place, _: place.token(aud=None),
    "an old token": lambda place, now: place.token(iat=now - 300, exp=None),
    "an expired token": lambda place, now: place.token(iat=now - 200, exp=now - 100),
    "a token of the future": lambda place, now: place.token(iat=now + 61, exp=None),
    "a broken signature": lambda place, _: place.token()[:-8] + "AAAAAAAA",
    "no token": lambda _place, _: "",
    "no JWT": lambda _place, _: "a.b",
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_token_that_is_no_logout(place: Place, what: str) -> None:
    """F2601a, TOKEN-12: Any other token gets 400, and neither ends nor revokes anything."""
    session = place.signed_in(sid="s-1")
    before = audit_entries(place.tenant)
    answer = place.send(REFUSED[what](place, int(place.ports.now().timestamp())))
    assert answer.status_code == 400, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json().keys() == {"error", "error_description"}
    assert answer.json()["error"] == "invalid_request"
    assert is_in(session)
    assert (audit_entries(place.tenant), place.revocations()) == (before, [])


def test_only_providers_of_people_log_out(place: Place, other_tenant: Tenant) -> None:
    """F2601b: Providers of programs and tokens, deleted and unknown ones get 400.

    So does a token of another provider, or for the provider of another tenant.
    """
    operator = place.tenant.operator
    service_accounts.create(place.ports, operator, name="robot")
    programs = identities.bound(place.ports, operator, ProviderUsage.WORKLOAD, jwks=None)
    keys = {"keys": [issuers.public(issuers.key("ES256"), kid="k1")]}
    values: dict[str, Any] = {"client_id": "rescind", "role_mappings": (), "jwks": keys}
    issuer = identities.bound(place.ports, operator, ProviderUsage.VERIFY_ONLY, **values)
    gone = identities.bound(place.ports, operator, jwks=None)
    identity_providers.delete(place.ports, operator, provider_id=gone.id)
    outside = replace(other_tenant.ports, outbound=lambda: place.outside)
    theirs = identities.bound(outside, other_tenant.operator, jwks=None, client_id="theirs")
    foreign: dict[str, Any] = {"issuer": "https://other.example.com", "jwks": keys}
    other = identities.bound(place.ports, operator, **foreign)
    for provider_id, aud in (
        (programs.id, programs.id),
        (issuer.id, "rescind"),
        (gone.id, "rescind"),
        (other.id, "rescind"),
        (theirs.id, "rescind"),
        (place.provider_id, "theirs"),
        ("svc_idp_01m7yzmhg0f0dpam98gwj1n1tw", "rescind"),
        (f"{place.provider_id}/x", "rescind"),
    ):
        answer = place.send(place.token(aud), provider_id)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert place.revocations() == []
    assert place.send(place.token("theirs"), theirs.id).status_code == 200
    assert place.revocations() == []
    assert not place.is_revoked("jwt-subject", "alice", 0)


def test_a_logout_of_the_command_line(place: Place) -> None:
    """F2601c: The client of the command line has sessions at the provider, and logouts, too."""
    change = ProviderChange(cli_client_id="rescind-cli")
    operator, provider_id = place.tenant.operator, place.provider_id
    identity_providers.update(place.ports, operator, provider_id=provider_id, change=change)
    assert place.send(place.token(["x", "rescind-cli"])).status_code == 200
    assert place.send(place.token("x")).status_code == 400


def test_the_request_of_a_logout(place: Place) -> None:
    """F2601d: A logout is one form by POST, with a token of at most 16 KiB."""
    http, path = place.http(), f"/v1/logout/{place.provider_id}"
    assert http.get(path).status_code == 405
    kind = {"Content-Type": "application/json"}
    body = b'{"logout_token": "x"}'
    assert http.request("POST", path, content=body, headers=kind).status_code == 400
    assert place.send("x" * 16_385).status_code == 400
    assert place.send("x" * 30_000).status_code == 413


@pytest.mark.parametrize("content", [b"", b"logout_token=", b"id_token=a.b.c"])
def test_a_logout_without_a_token(place: Place, content: bytes) -> None:
    """F2840b, TOKEN-12: A form without `logout_token` gets 400, whose text names the parameter."""
    session = place.signed_in(sid="s-1")
    answer = place.post(content)
    assert answer.status_code == 400
    said = {"error": "invalid_request", "error_description": "logout_token: is required."}
    assert answer.json() == said
    assert is_in(session)


def test_a_delivery_that_is_repeated(place: Place, clock: Clock) -> None:
    """F2602a, TOKEN-12: A logout token counts once: later sessions and an undo stay as they are."""
    place.signed_in()
    token = place.token()
    assert place.send(token).status_code == 200
    (made,) = place.revocations()
    assert place.tenant.admin.delete(f"/v1/revocations/{made['id']}").status_code == 204
    clock.advance(seconds=30)
    later, before = place.signed_in(), audit_entries(place.tenant)
    assert place.send(token).status_code == 200
    assert is_in(later)
    assert (audit_entries(place.tenant), place.revocations()) == (before, [])
    assert place.send(place.token()).status_code == 200
    assert not is_in(later)


@pytest.mark.parametrize("sid", ["s-1", None])
def test_two_deliveries_at_once(place: Place, sid: str | None) -> None:
    """F2602b: Two deliveries of a logout token at once make one revocation, and both get 200."""
    session, token = place.signed_in(sid="s-1"), place.token(sid=sid)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: place.send(token), range(2)))
    assert [each.status_code for each in answers] == [200, 200]
    assert len(place.revocations()) == 1
    assert not is_in(session)


@pytest.mark.parametrize("sid", ["s-1", None])
def test_a_logout_while_the_store_fails(place: Place, sid: str | None) -> None:
    """F2602c, TOKEN-12: Whichever call fails, the answer is 503; a repetition completes it."""
    answer, number = None, 0
    while answer is None or answer.status_code != 200:
        session, token = place.signed_in(sid="s-1"), place.token(sid=sid)
        number += 1
        left = [number]

        def fail(call: Call, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Unavailable("the store fails")
            return call.complete()

        failing = replace(place.ports, store=Intercepted(place.ports.store, fail))
        answer = place.send(token, http=place.http(failing))
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) > 0
            assert place.send(token).status_code == 200
        assert not is_in(session)
        for each in place.revocations():
            assert place.tenant.admin.delete(f"/v1/revocations/{each['id']}").status_code == 204
    assert number > 8


def test_garbage_fetches_no_keys(place: Place) -> None:
    """F2602d, IDENTITY-10: A wrong token asks no provider; an unknown kid asks once a minute."""
    place.send(place.token(aud="another"))
    asked = len(place.outside.asked)
    assert KEYS_URI not in [each[0] for each in place.outside.asked]
    http = place.http()
    unknown = issuers.signed(
        {"alg": "ES256", "kid": "k9"},
        {
            "iss": ISSUER,
            "aud": "rescind",
            "iat": int(place.ports.now().timestamp()),
            "jti": "1",
            "sub": "alice",
            "events": identities.LOGOUT,
        },
        issuers.key("ES256"),
    )
    codes = [place.send(unknown, http=http).status_code for _ in range(12)]
    assert codes == [400] * 12
    assert len(place.outside.asked) == asked + 1
    # A key that is known needs no request.
    assert place.send(place.token(), http=http).status_code == 200
    place.outside.is_down = True
    cold = replace(place.ports, issuer_keys={})
    assert place.send(place.token(), http=place.http(cold)).status_code == 200


def test_a_provider_sends_too_many_logouts(place: Place) -> None:
    """F2602e, IDENTITY-10: A provider has 50 logouts a second, apart from its sign-ins."""
    codes = [place.send(place.token(sub=f"u{each}")).status_code for each in range(101)]
    assert codes == [200] * 100 + [429]
    assert is_in(place.signed_in())


def test_the_keys_of_a_provider_cannot_be_read(place: Place) -> None:
    """F2602f: If keys cannot be fetched, a logout gets 503, as the provider may repeat it."""
    place.outside.is_down = True
    assert place.send(place.token()).status_code == 503


# What is revoked, and how a token says that it is of it.
REVOKED_BY: list[tuple[str, str, dict[str, Any]]] = [
    ("jwt", "j-1", {"jti": "j-1"}),
    ("jwt-session", "s-1", {"sid": "s-1"}),
    ("jwt-subject", "alice", {}),
]


@pytest.mark.parametrize(("kind", "value", "said"), REVOKED_BY)
def test_a_revoked_token_signs_nobody_in(
    place: Place, clock: Clock, kind: str, value: str, said: dict[str, Any]
) -> None:
    """F2606a, F2876a, TOKEN-11: A token begins no session if it, its session or subject is revoked.

    A token that was issued later does, and after an undo each does. Sessions go on.
    """
    earlier, same = place.signed_in("bob", sid="s-2", jti="j-2"), place.signed_in(**said)
    before = int(clock().timestamp())
    token: dict[str, Any] = {"kind": kind, "issuer": ISSUER, "value": value}
    token |= {"issued_before": before} if kind == "jwt-subject" else {}
    body = {"token": token, "reason": "stolen"}
    made = place.tenant.admin.post("/v1/revocations", json=body).json()
    clock.advance(seconds=1)
    with pytest.raises(SignInRefused, match="revoked"):
        place.signed_in(iat=before, **said)
    assert all(map(is_in, (earlier, same)))
    clock.advance(seconds=1)
    assert is_in(place.signed_in(iat=before + 1))
    assert place.tenant.admin.delete(f"/v1/revocations/{made['id']}").status_code == 204
    assert is_in(place.signed_in(iat=before, **said))


def test_a_logout_by_a_new_key(place: Place, clock: Clock) -> None:
    """F2602g, TOKEN-12: A token that is newer than the keys that were read gets 429, not 400.

    The issuer may have its key since. The same token counts once the keys are read again.
    """
    assert place.send(place.token(sub="bob")).status_code == 200
    alice = place.signed_in()
    clock.advance(seconds=10)
    new = issuers.public(issuers.key("ES256"), kid="k2")
    place.outside.documents[KEYS_URI] = issuers.key_set(new)
    token = issuers.signed(
        {"alg": "ES256", "kid": "k2", "typ": "logout+jwt"},
        {
            "iss": ISSUER,
            "aud": "rescind",
            "iat": int(clock().timestamp()),
            "exp": int(clock().timestamp()) + 120,
            "jti": "j-9",
            "sub": "alice",
            "events": identities.LOGOUT,
        },
        issuers.key("ES256"),
    )
    answer = place.send(token)
    assert (answer.status_code, answer.headers.get("retry-after")) == (429, "60")
    assert is_in(alice)
    clock.advance(seconds=60)
    assert place.send(token).status_code == 200
    assert not is_in(alice)
