"""Sign-ins over HTTP (IDENTITY-7): codes and tokens become sessions."""

import gzip
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from functions.sign_in import handler
from shared.errors import Unavailable
from shared.model.callers import Scope
from shared.model.identities import providers
from shared.model.identities.providers import ProviderUsage
from shared.model.items import Table
from shared.operations.access import service_accounts
from shared.operations.identities import identity_providers, people, sessions, tickets
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.identities.issuers import refresh_all
from shared.operations.operator import failover, onboarding
from shared.ports.store import Expect, Put
from shared.web.gate import PublicMiddleware
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter
from tests.functions.signing import refusal
from tests.kit import identities, issuers
from tests.kit.api import Instance, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.identities import bound
from tests.kit.issuers import ISSUER, Answers
from tests.kit.worlds import Clock

VERIFIER = "v" * 43
NONCE = "n-0S6_WzA2Mj"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"


@dataclass
class Place:
    """A tenant with a provider that answers, and the function that signs in."""

    tenant: Tenant
    http: Instance
    outside: Answers
    provider_id: str
    source: str = "203.0.113.1"
    site: str = "same-origin"

    @property
    def redirect(self) -> str:
        return f"https://rescind.example.com/console/signed-in/{self.provider_id}"

    def token(self, audience: str, **claims: Any) -> str:
        return identities.token(self.tenant.ports, audience, **claims)

    def send(self, content: bytes, kind: str, path: str = "/v1/token") -> Any:
        headers = {
            "Content-Type": kind,
            "X-Forwarded-For": self.source,
            "Sec-Fetch-Site": self.site,
        }
        return self.http.request("POST", path, content=content, headers=headers)

    def post(self, form: Mapping[str, str | None], path: str = "/v1/token") -> Any:
        given = {name: value for name, value in form.items() if value is not None}
        return self.send(urlencode(given).encode(), "application/x-www-form-urlencoded", path)

    def exchange(self, token: str, **changes: str | None) -> Any:
        form: dict[str, str | None] = {
            "grant_type": EXCHANGE,
            "audience": self.provider_id,
            "subject_token": token,
            "subject_token_type": JWT,
        }
        return self.post(form | changes)

    def ticket(self) -> str:
        operator = onboarding.operator(self.tenant.ports, handle="acme", user="root (sudo by bob)")
        return tickets.issue(self.tenant.ports, operator)

    def use(self, ticket: str | None) -> Any:
        return self.post({"grant_type": "urn:rescind:grant-type:ticket", "ticket": ticket})

    def redeem(self, token: str, **changes: str | None) -> Any:
        """Redeem a code for which the provider gives this token."""
        self.outside.documents[f"{ISSUER}/token"] = json.dumps({"id_token": token})
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "audience": self.provider_id,
            "code": "SplxlOBe",
            "code_verifier": VERIFIER,
            "nonce": NONCE,
            "redirect_uri": self.redirect,
        }
        return self.post(form | changes, "/v1/sign-in/code")


@pytest.fixture
def place(tenant: Tenant) -> Place:
    outside = identities.published()
    ports = replace(tenant.ports, outbound=lambda: outside, sleep=lambda _: None)
    proxies = [IPv4Network("203.0.113.1/32")]
    limits = PublicMiddleware(AnonymousLimiter(ports.now), lambda: proxies, {})
    http = Instance(partial(limits.answer, SignIn(lambda: ports)))
    values: dict[str, Any] = {"jwks": None, "client_secret": "s3cret", "token_exchange": True}
    provider = bound(ports, tenant.operator, **values)
    return Place(tenant, http, outside, provider.id)


def programs(place: Place, **values: Any) -> str:
    """The identifier of a provider of programs, which call as the account `robot`."""
    service_accounts.create(place.tenant.ports, place.tenant.operator, name="robot")
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)
    usage = ProviderUsage.WORKLOAD
    return bound(ports, place.tenant.operator, usage, jwks=None, **values).id


def test_a_code_becomes_a_session(place: Place) -> None:
    """IDENTITY-7, F1150a: A code is redeemed with the client secret, and gives a person a session.

    The audit log has where the sign-in came from.
    """
    answer = place.redeem(place.token("rescind", nonce=NONCE, auth_time=1795262000))
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    granted = answer.json()
    secret = granted.pop("access_token")
    assert granted == {
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "admin",
    }
    asked = place.outside.asked[-2:]
    form = {
        "grant_type": "authorization_code",
        "code": "SplxlOBe",
        "code_verifier": VERIFIER,
        "redirect_uri": place.redirect,
    }
    assert (f"{ISSUER}/token", form, ("rescind", "s3cret")) in asked
    who = place.tenant.holding(secret).get("/v1/whoami").json()
    assert (who["identity"], who["authenticated_at"]) == (
        "alice@example.com",
        "2026-11-21T11:53:20Z",
    )
    entry = audit_entries(place.tenant)[-1]
    assert (entry["action"], entry["actor"]) == ("session.create", "alice@example.com")
    assert (entry["source_ip"], entry["request_id"]) == (
        "203.0.113.1",
        answer.headers["x-request-id"],
    )
    assert secret not in str(audit_entries(place.tenant))


def test_a_program_exchanges_its_token(place: Place) -> None:
    """IDENTITY-7, F1150b: A token for this provider alone gives a program 15 minutes."""
    provider_id = programs(place)
    said = {"sub": "system:serviceaccount:ci", "email": None, "groups": ["signer"]}
    token = place.token(provider_id, **said)
    answer = place.exchange(token, audience=provider_id).json()
    assert (answer["expires_in"], answer["scope"]) == (900, "signer")
    who = place.tenant.holding(answer["access_token"]).get("/v1/whoami").json()
    assert (who["identity"], who["scopes"]) == ("robot@acme.svc", ["signer"])
    assert place.exchange(token, audience=provider_id).json()["error"] == "invalid_grant"


def test_a_ticket_becomes_a_session(place: Place) -> None:
    """IDENTITY-8, F450a: A ticket gives its operator an hour, once; sign-out ends it.

    The audit log names the operator.
    """
    ticket = place.ticket()
    answer = place.use(ticket)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["expires_in"], answer.json()["scope"]) == (3600, "admin")
    session = place.tenant.holding(answer.json()["access_token"])
    who = session.get("/v1/whoami").json()
    assert (who["identity"], who["name"]) == ("system+operator@acme.svc", "root (sudo by bob)")
    assert (who["person_id"], who["expires_at"]) == (None, "2026-11-21T13:00:00Z")
    (shown,) = session.get("/v1/sessions").json()["sessions"]
    assert (shown["id"], shown["owner"], shown["provider_id"]) == (who["session_id"], None, None)
    assert session.delete("/v1/sessions/current").status_code == 204
    assert session.get("/v1/whoami").status_code == 401
    assert place.use(ticket).json()["error"] == "invalid_grant"
    for entry in audit_entries(place.tenant)[-2:]:
        assert entry["actor"] == "system+operator@acme.svc"
        assert str(entry["details"]).count("root (sudo by bob)") == 1
        assert entry["source_ip"] is not None
    # It is a change that was served, and no command on a copy of the store.
    newest = failover.newest_arrived(place.tenant.ports, place.tenant.id)
    assert newest is not None
    assert newest.action == "session.delete"


def test_the_session_of_a_ticket_makes_lasting_keys(place: Place) -> None:
    """APIKEY-4, F594c: A session by a ticket makes keys of any end, which are bound by theirs."""
    session = place.tenant.holding(place.use(place.ticket()).json()["access_token"])
    assert session.get("/v1/whoami").json()["can_create_until"] is None
    end = "2099-01-01T00:00:00Z"
    body = {"name": "gate", "scopes": ["admin"], "expires_at": end}
    made = session.post("/v1/api-keys", json=body)
    assert made.status_code == 201, made.text
    lasting = place.tenant.holding(made.json()["key"])
    assert lasting.post("/v1/api-keys", json=body | {"expires_at": None}).status_code == 400


@pytest.mark.parametrize(("seconds", "accepted"), [(299, True), (300, False), (-1, False)])
def test_a_ticket_lasts_five_minutes(
    place: Place, clock: Clock, seconds: int, accepted: bool
) -> None:
    """IDENTITY-8, F450c: A ticket ends after five minutes, also if the clock is set back."""
    ticket = place.ticket()
    clock.advance(seconds=seconds)
    assert place.use(ticket).is_success is accepted


def test_a_ticket_that_is_refused(place: Place, clock: Clock) -> None:
    """IDENTITY-8, F450b: No other ticket is accepted, and none from before a recovery.

    A ticket has 256 random bits, and the store has no more of it than its hash.
    """
    before = [place.ticket() for _ in range(8)]
    assert {len(each) for each in before} == {43}
    stored = str(list(place.tenant.ports.store.everything(Table.KEYS)))
    assert not any(each in stored for each in before)
    sessions.end_all(place.tenant.ports, place.tenant.id)
    clock.advance(seconds=1)
    for ticket in (*before, f"{place.ticket()}x", "é"):
        answer = place.use(ticket)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert place.use(None).json()["error"] == "invalid_request"
    assert place.use(place.ticket()).is_success


def test_a_replay_is_refused(place: Place) -> None:
    """IDENTITY-6, F1150c: A token is exchanged once, also if its signature is written anew."""
    token = place.token("rescind")
    assert place.exchange(token).status_code == 200
    head, _, signature = token.rpartition(".")
    r, s = (issuers.raw(signature)[start : start + 32] for start in (0, 32))
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    other = (order - int.from_bytes(s)).to_bytes(32)
    for again in (token, f"{head}.{issuers.encoded(r + other)}"):
        answer = place.exchange(again)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        assert "used" in answer.json()["error_description"]


def test_the_command_line(place: Place) -> None:
    """IDENTITY-7, F1150d: The command line redeems with its own client, without the secret."""
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)
    change = ProviderChange(cli_client_id="rescind-cli")
    identity_providers.update(
        ports, place.tenant.operator, provider_id=place.provider_id, change=change
    )
    local = "http://127.0.0.1:53682/"
    token = place.token("rescind-cli", nonce=NONCE)
    assert place.redeem(token, client="cli", redirect_uri=local).status_code == 200
    _, form, user = next(each for each in place.outside.asked if each[0].endswith("/token"))
    assert form is not None
    assert (form["client_id"], user) == ("rescind-cli", None)
    assert place.exchange(place.token("rescind-cli")).status_code == 200
    assert place.exchange(place.token("rescind")).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"grant_type": None}, "invalid_request"),
        ({"grant_type": "refresh_token"}, "unsupported_grant_type"),
        ({"audience": None}, "invalid_request"),
        ({"audience": "svc_idp_01m7yzmhg0f0dpam98gwj1n1tw"}, "invalid_target"),
        ({"audience": "acme"}, "invalid_target"),
        ({"code": None}, "invalid_request"),
        ({"code_verifier": "short"}, "invalid_request"),
        ({"code_verifier": None}, "invalid_request"),
        ({"nonce": None}, "invalid_request"),
        ({"nonce": "another"}, "invalid_grant"),
        (
            {"redirect_uri": "https://rescind.example.com/console/signed-in/other"},
            "invalid_request",
        ),
        ({"redirect_uri": "http://127.0.0.1:53682/"}, "invalid_request"),
        ({"client": "cli"}, "invalid_request"),
        ({"client": "cli", "redirect_uri": "http://127.0.0.1.evil.com:1/"}, "invalid_request"),
    ],
)
def test_a_code_that_is_not_redeemed(
    place: Place, changes: dict[str, str | None], error: str
) -> None:
    """IDENTITY-7, F1151a: A code with wrong parameters gives an error, and no session."""
    answer = place.redeem(place.token("rescind", nonce=NONCE), **changes)
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert people.page(place.tenant.ports, place.tenant.operator, before=None, limit=1).total == 0


def test_a_token_of_elsewhere(place: Place, other_tenant: Tenant) -> None:
    """IDENTITY-7, F1151b: A token for another client, provider or tenant is refused."""
    provider_id = programs(place)
    outside = replace(other_tenant.ports, outbound=lambda: place.outside)
    theirs = bound(outside, other_tenant.operator, jwks=None)
    for token, audience in (
        (place.token("another"), place.provider_id),
        (place.token(place.provider_id), place.provider_id),
        (place.token("rescind"), provider_id),
        (place.token(theirs.id), provider_id),
        (place.token("rescind", iss="https://evil.example.com"), place.provider_id),
    ):
        assert place.exchange(token, audience=audience).json()["error"] == "invalid_grant"
    answer = place.exchange(place.token("rescind", groups=["guests"]))
    assert (answer.status_code, answer.json()["error"]) == (403, "access_denied")


def test_people_exchange_tokens_by_choice(place: Place) -> None:
    """F2003c, IDENTITY-7: Without a client of the command line, people exchange no tokens."""
    bind = partial(bound, replace(place.tenant.ports, outbound=lambda: place.outside))
    for values, allowed in (
        ({}, False),
        ({"token_exchange": True}, True),
        ({"cli_client_id": "rescind-cli"}, True),
        ({"cli_client_id": "rescind-cli", "token_exchange": False}, False),
    ):
        made = bind(place.tenant.operator, jwks=None, **values)
        # Each provider has people of its own, with e-mails of their own.
        email = f"{made.id[-8:]}@example.com"
        token = place.token(made.cli_client_id or "rescind", email=email)
        answer = place.exchange(token, audience=made.id).json()
        assert answer.get("error") == (None if allowed else "invalid_target")


def test_a_form_as_clients_write_it(place: Place) -> None:
    """IDENTITY-7, F2224a: Empty pairs in a form are ignored; a compressed form gets 415."""
    form = urlencode({"grant_type": "urn:rescind:grant-type:ticket", "ticket": place.ticket()})
    kind = "application/x-www-form-urlencoded"
    for path in ("/v1/token", "/v1/sign-in/code"):
        headers = {"Content-Type": kind, "Content-Encoding": "gzip"}
        packed = gzip.compress(form.encode())
        answer = place.http.request("POST", path, content=packed, headers=headers)
        assert refusal(answer) == (415, "unsupported_media_type")
    assert place.send(f"&{form}&&".encode(), kind).status_code == 200


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (
            "requested_token_type",
            "urn:ietf:params:oauth:token-type:refresh_token",
            "invalid_request",
        ),
        ("actor_token", "x", "invalid_request"),
        ("actor_token_type", JWT, "invalid_request"),
        ("resource", "https://api.example.com", "invalid_target"),
    ],
)
def test_what_no_exchange_gives(place: Place, name: str, value: str, error: str) -> None:
    """IDENTITY-7, F2225a: What an exchange does not support is refused, and uses no token."""
    token = place.token("rescind")
    answer = place.exchange(token, **{name: value})
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert answer.json()["error_description"].startswith("actor_token" if "actor" in name else name)
    wanted = "urn:ietf:params:oauth:token-type:access_token"
    assert place.exchange(token, requested_token_type=wanted).status_code == 200


def test_codes_have_a_path_of_their_own(place: Place) -> None:
    """IDENTITY-7, F2210a: Each path takes its own grants alone; the message names them."""
    for grant_type, path, named in (
        ("authorization_code", "/v1/token", EXCHANGE),
        (EXCHANGE, "/v1/sign-in/code", "authorization_code"),
        ("urn:rescind:grant-type:ticket", "/v1/sign-in/code", "authorization_code"),
    ):
        answer = place.post({"grant_type": grant_type, "audience": place.provider_id}, path)
        assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_grant_type")
        assert named in answer.json()["error_description"]


def test_a_form_that_is_none(place: Place) -> None:
    """F1151c: A body that is no form, names a parameter twice or is too large is refused."""
    form = "application/x-www-form-urlencoded"
    for kind, content in (
        ("application/json", b"{}"),
        (form, b""),
        (form, b"grant_type"),
        (form, b"grant_type=a&grant_type=b"),
        (form, "grant_type=ä".encode()),
        (form, b"grant_type=%ff"),
        (form, b"&".join(b"a%d=1" % number for number in range(21))),
    ):
        answer = place.http.request(
            "POST", "/v1/token", content=content, headers={"Content-Type": kind}
        )
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    large = place.http.request(
        "POST", "/v1/token", content=b"a" * 25_000, headers={"Content-Type": form}
    )
    assert large.status_code == 413
    for path in ("/v1/token", "/v1/sign-in/code"):
        wrong = place.http.get(path)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert place.http.request("POST", "/v1/sign-in").status_code == 405


def test_a_provider_that_is_down(place: Place) -> None:
    """F1152a: While a provider does not answer, codes give 503, and sessions go on.

    The keys of the issuer are remembered, so that tokens can still be exchanged.
    """
    secret = place.exchange(place.token("rescind")).json()["access_token"]
    place.outside.is_down = True
    answer = place.redeem(place.token("rescind", nonce=NONCE))
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert place.tenant.holding(secret).get("/v1/whoami").status_code == 200
    assert place.exchange(place.token("rescind")).status_code == 200


def test_codes_are_limited(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """IDENTITY-7, F1152b, F2871b: A provider gets fifty codes a second, a hundred at once.

    The limit of one address does not hide it: the codes come from many. It is no outage of the
    service, so nothing is logged that fires an alarm.
    """
    clock: Any = place.tenant.ports.now
    place.outside.documents[f"{ISSUER}/token"] = "{}"

    def statuses(number: int) -> list[int]:
        found = []
        for each in range(number):
            place.source = f"198.51.100.{each}"
            found.append(place.redeem("none").status_code)
        return found

    assert statuses(101) == [400] * 100 + [429]
    clock.advance(seconds=1)
    assert statuses(51) == [400] * 50 + [429]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.slow
def test_garbage_takes_no_allowance(place: Place) -> None:
    """IDENTITY-7, F2200a: A request that fails a check of its own takes nothing from any limit.

    So nobody keeps others from signing in by garbage, from the same address too.
    """
    code, wrong = place.token("rescind", nonce=NONCE), place.token("another")
    asked = len(place.outside.asked)
    for _ in range(150):
        for answer in (
            place.exchange("nonsense"),
            place.exchange(wrong),
            place.redeem(code, code_verifier="short"),
            place.redeem(code, redirect_uri="https://evil.example.com/"),
        ):
            assert answer.status_code == 400
    assert len(place.outside.asked) == asked
    for _ in range(10):
        assert place.redeem(place.token("rescind", nonce=NONCE)).status_code == 200


@pytest.mark.parametrize("source", ["198.51.100.7", "2001:db8:1:2::"])
def test_an_address_has_its_own_allowance(place: Place, source: str) -> None:
    """IDENTITY-7, F2200b: An address causes five requests to providers a second, ten at once.

    An IPv6 network of 64 bits counts as one address. Other addresses are not affected.
    """
    clock: Any = place.tenant.ports.now
    statuses = []
    for number in range(11):
        place.source = f"{source}{number:x}" if ":" in source else source
        statuses.append(place.redeem("none").status_code)
    assert statuses == [400] * 10 + [429]
    refused = place.redeem("none")
    assert (refused.json()["error"], refused.headers["retry-after"]) == (
        "temporarily_unavailable",
        "1",
    )
    # What this process checks without the provider is not limited.
    place.exchange(place.token("rescind", jti="known"))
    place.source = "192.0.2.1"
    assert place.exchange(place.token("rescind")).status_code == 200
    place.source = f"{source}1" if ":" in source else source
    assert place.exchange(place.token("rescind")).status_code == 200
    clock.advance(seconds=1)
    assert [place.redeem("none").status_code for _ in range(6)] == [400] * 5 + [429]


def test_a_site_of_ipv6_has_one_allowance(place: Place) -> None:
    """IDENTITY-10, F2840a: All addresses of an IPv6 /48 share one limit; the next /48 has its own.

    The first ten requests come from ten networks of 64 bits, at both ends of the /48.
    """

    def ask(source: str) -> int:
        place.source = source
        return int(place.redeem("none").status_code)

    subnets = [f"{number:x}" for number in (*range(5), *range(0xFFFB, 0x10000))]
    assert [ask(f"2001:db8:7:{each}::1") for each in subnets] == [400] * 10
    assert ask("2001:db8:7:8000::1") == 429
    assert [ask(f"2001:db8:{each}::1") for each in ("6:ffff", "8")] == [400, 400]
    assert ask("2001:db8:7::2") == 429


def test_unknown_keys_are_limited_too(place: Place, clock: Clock) -> None:
    """IDENTITY-7, F2200c, F2870c: A token by an unknown key may cause a fetch, so it is limited.

    Less than a minute after a fetch it causes none, and is refused.
    """

    def forged(times: int) -> list[int]:
        header = issuers.encoded({"alg": "ES256", "kid": "k2", "typ": "JWT"})
        body = place.token("rescind").split(".")[1]
        return [place.exchange(f"{header}.{body}.{'A' * 86}").status_code for _ in range(times)]

    place.exchange(place.token("rescind"))
    asked = len(place.outside.asked)
    assert forged(20) == [400] * 20
    clock.advance(seconds=60)
    place.outside.is_down = True
    assert forged(11) == [503] * 10 + [429]
    assert len(place.outside.asked) == asked + 1


def test_known_keys_of_an_issuer_that_is_down(place: Place, clock: Clock) -> None:
    """IDENTITY-10, F2870d: While an issuer does not answer, a known key is no reason to wait.

    So the limit of an address is not reached by the many who sign in from it.
    """
    place.exchange(place.token("rescind"))
    place.outside.is_down = True
    clock.advance(hours=2)
    asked = len(place.outside.asked)
    for _ in range(20):
        assert place.exchange(place.token("rescind")).status_code == 200
    assert len(place.outside.asked) == asked + 1


def test_a_page_of_another_site_signs_nobody_in(place: Place) -> None:
    """IDENTITY-7, F2203a: A request from a page of another site is refused, and uses nothing."""
    ticket = place.ticket()
    place.site = "cross-site"
    answer = place.use(ticket)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    for site in ("same-site", "none", "same-origin"):
        place.site = site
        assert place.use(place.ticket()).status_code == 200
    assert place.use(ticket).status_code == 200


def test_a_provider_that_fails_is_spared(place: Place, other_tenant: Tenant, clock: Clock) -> None:
    """IDENTITY-7, F2201a: After three failures a provider gets no code for 10 s, then one trial.

    A success ends this. Another tenant has a breaker of its own, since addresses are its choice.
    """
    place.outside.is_down = True

    def asked(*, answers: int = 503) -> int:
        before = len(place.outside.asked)
        assert place.redeem(place.token("rescind", nonce=NONCE)).status_code == answers
        return len(place.outside.asked) - before

    assert [asked() for _ in range(4)] == [1, 1, 1, 0]
    theirs = bound(place.tenant.ports, other_tenant.operator)
    mine, place.provider_id = place.provider_id, theirs.id
    place.outside.is_down = False
    ours = replace(place.tenant.ports, outbound=lambda: place.outside)
    change = ProviderChange(issuer=ISSUER, jwks={})
    identity_providers.update(ours, other_tenant.operator, provider_id=theirs.id, change=change)
    assert asked(answers=200) >= 1
    place.provider_id, place.outside.is_down = mine, True
    clock.advance(seconds=9)
    assert asked() == 0
    clock.advance(seconds=1)
    assert [asked(), asked()] == [1, 0]
    place.outside.is_down = False
    clock.advance(seconds=10)
    place.source = "192.0.2.9"
    assert [asked(answers=200), asked(answers=200)] == [1, 1]


def test_a_check_of_a_provider_that_fails_is_spared(place: Place) -> None:
    """IDENTITY-1, F2201b: Checks of a provider that fails are answered at once after the third."""
    place.outside.is_down = True
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)
    before = len(place.outside.asked)
    for _ in range(5):
        with pytest.raises(Unavailable):
            identity_providers.check(ports, place.tenant.operator, provider_id=place.provider_id)
    assert len(place.outside.asked) - before == 3


def test_nobody_waits_for_discovery(place: Place, clock: Clock) -> None:
    """IDENTITY-7, F2202a: Sign-ins read endpoints that the schedule refreshed, and ask nobody.

    A tick of the schedule asks for documents that are a day old, of all tenants.
    """
    where = f"{ISSUER}/.well-known/openid-configuration"
    document = str(place.outside.documents[where])
    place.outside.documents[where] = document.replace(f"{ISSUER}/auth", f"{ISSUER}/moved")
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)

    def endpoint() -> str:
        (found,) = place.http.get("/v1/sign-in?tenant=acme").json()["identity_providers"]
        return str(found["authorization_endpoint"])

    clock.advance(hours=24)
    before = len(place.outside.asked)
    assert [endpoint(), len(place.outside.asked) - before] == [f"{ISSUER}/auth", 0]
    assert refresh_all(ports, lambda: True) == 0
    assert len(place.outside.asked) == before
    assert [refresh_all(ports, lambda: False) for _ in range(3)] == [0, 0, 0]
    assert len(place.outside.asked) == before + 1
    assert endpoint() == f"{ISSUER}/moved"


def test_a_tick_of_the_schedule(
    place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IDENTITY-1, F2202b: A tick on Lambda refreshes, if there is time and changes are allowed."""
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)
    monkeypatch.setattr("shared.wiring.from_environment", lambda: ports)
    clock.advance(hours=24)
    before = len(place.outside.asked)
    for left, mode, asked in ((9_000, "open", 0), (29_000, "read-only", 0), (29_000, "open", 1)):
        monkeypatch.setenv("RESCIND_MODE", mode)
        context = SimpleNamespace(get_remaining_time_in_millis=lambda left=left: left)
        assert handler.handler({}, context) in ({}, {"failed": 0})
        assert len(place.outside.asked) - before == asked


def test_a_provider_that_cannot_be_read(place: Place, clock: Clock) -> None:
    """IDENTITY-1, F2202c: A damaged record of a provider does not stop the refresh of others."""
    ports = replace(place.tenant.ports, outbound=lambda: place.outside)
    damaged = providers.providers(place.tenant.id).address("svc_idp_0")
    ports.store.write(Put(damaged, {"id": "svc_idp_0"}, Expect.ABSENT))
    clock.advance(hours=24)
    before = len(place.outside.asked)
    assert refresh_all(ports, lambda: False) == 1
    assert len(place.outside.asked) == before + 1


@pytest.mark.slow
def test_strangers_share_a_bucket(place: Place) -> None:
    """AUTH-9, F1152c: Requests without a key take a token of their address before any work."""
    answers = [place.http.get("/v1/sign-in") for _ in range(2001)]
    assert {each.status_code for each in answers[:2000]} == {400}
    assert refusal(answers[2000]) == (429, "rate_limited")


def test_who_can_vouch(place: Place) -> None:
    """IDENTITY-7, F1153a: A page to sign in learns the providers of people, and no secret.

    A tenant that does not exist looks like one without a provider.
    """
    programs(place)
    found = place.http.get("/v1/sign-in?tenant=acme").json()["identity_providers"]
    assert found == [
        {
            "id": place.provider_id,
            "name": "SSO",
            "issuer": ISSUER,
            "client_id": "rescind",
            "cli_client_id": None,
            "authorization_endpoint": f"{ISSUER}/auth",
            "device_authorization_endpoint": None,
            "token_endpoint": f"{ISSUER}/token",
        }
    ]
    for name in ("nobody", "ACME", "", "a" * 64):
        answer = place.http.get(f"/v1/sign-in?tenant={name}")
        assert answer.json() == {"identity_providers": []}
    for query in ("", "?tenant=a&tenant=b", "?tenant=acme&x=1"):
        assert refusal(place.http.get(f"/v1/sign-in{query}")) == (400, "invalid_request")


def test_a_role_follows_the_groups(place: Place) -> None:
    """F1153b: A person whose groups changed has the new role in every session, at once."""
    first = place.exchange(place.token("rescind")).json()["access_token"]
    place.exchange(place.token("rescind", groups=[Scope.READ_ONLY.value]))
    who = place.tenant.holding(first).get("/v1/whoami").json()
    assert (who["role"], who["scopes"]) == ("read-only", ["read-only"])
