"""Introspection over HTTP (TOKEN-3, TOKEN-4): real tokens of an issuer of the tenant."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from functions.introspection import handler
from shared.errors import InvalidRequest, Unavailable
from shared.model import times
from shared.model.callers import Scope
from shared.model.identifiers import token_id
from shared.model.identities.claims import OAuthErrorCode, SignInRefused
from shared.model.identities.providers import ProviderUsage, RoleMapping
from shared.model.warrants import WarrantState, warrant_address
from shared.operations.identities import identity_providers, sign_in
from shared.operations.identities.identity_providers import ProviderChange
from shared.web.app import create_app
from tests.functions import signing
from tests.kit import identities, issuers
from tests.kit.api import Instance, Tenant
from tests.kit.issuers import ISSUER

_FORM = "application/x-www-form-urlencoded"


@dataclass
class Place:
    """A tenant with an issuer of tokens for `accounts`, and the function that introspects."""

    tenant: Tenant
    http: Instance

    def token(self, **said: Any) -> str:
        usual = {"jti": "bad-1", "scope": "read", "email": None, "groups": None}
        claims = {**usual, **said}
        return identities.token(self.tenant.ports, "accounts", **claims)

    def ask(self, token: str, **headers: str) -> Any:
        given = {"Authorization": f"Bearer {self.tenant.authorizer.secret}"} | headers
        return self.send(urlencode({"token": token, "token_type_hint": "access_token"}), given)

    def send(self, content: str, headers: dict[str, str]) -> Any:
        typed = {"Content-Type": _FORM} | headers
        return self.http.request("POST", handler.PATH, content=content.encode(), headers=typed)

    def is_active(self, token: str) -> bool:
        answer = self.ask(token)
        assert answer.status_code == 200, answer.text
        if answer.json() != {"active": False}:
            assert answer.json()["active"] is True
            return True
        return False


def _bound(tenant: Tenant, *algorithms: str, **values: Any) -> str:
    keys = [issuers.public(issuers.key(each), kid="k1") for each in algorithms or ("ES256",)]
    usual = {"jwks": {"keys": keys}, "client_id": "accounts", "role_mappings": ()}
    usage = ProviderUsage.VERIFY_ONLY
    return identities.bound(tenant.ports, tenant.operator, usage, **{**usual, **values}).id


def _served(tenant: Tenant) -> Instance:
    return Instance(handler.OAuth(create_app(handler.routes, ports=lambda: tenant.ports)))


@pytest.fixture
def place(tenant: Tenant) -> Place:
    _bound(tenant)
    return Place(tenant, _served(tenant))


def test_a_good_token_is_active_until_it_is_revoked(place: Place) -> None:
    """TOKEN-4, F1393a: A good token is answered with its claims, and a revoked one as inactive."""
    now = int(place.tenant.ports.now().timestamp())
    answer = place.ask(place.token())
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "active": True,
        "iss": ISSUER,
        "sub": "alice",
        "aud": "accounts",
        "jti": "bad-1",
        "iat": now,
        "exp": now + 300,
        "scope": "read",
    }
    token = {"kind": "jwt", "issuer": ISSUER, "value": "bad-1"}
    revoked = place.tenant.admin.post("/v1/revocations", json={"token": token, "reason": "lost"})
    assert revoked.status_code == 201
    assert place.ask(place.token()).json() == {"active": False}
    assert place.is_active(place.token(jti="good-2", aud=["others", "accounts"]))


def test_a_bound_token(place: Place) -> None:
    """F2874a, TOKEN-4: The answer has the key to which a token is bound, so a gateway checks it."""
    for bound in ({"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, {"x5t#S256": "bwcK0e"}):
        assert place.ask(place.token(cnf=bound)).json()["cnf"] == bound
    assert "cnf" not in place.ask(place.token()).json()


def test_all_tokens_of_a_subject(place: Place) -> None:
    """TOKEN-11, F2401a: A cutoff makes tokens up to its time inactive, until it is restored."""
    now = int(place.tenant.ports.now().timestamp())
    revocations = [_revoke_subject(place, now - each) for each in (10, 5)]
    assert not place.is_active(place.token(iat=now - 5))
    assert not place.is_active(place.token(iat=now - 5.5))
    assert not place.is_active(place.token(iat=None))
    assert not place.is_active(place.token(iat=now - 20, jti=None))
    assert place.is_active(place.token(iat=now - 4))
    assert place.is_active(place.token(iat=now - 4.5))
    assert place.is_active(place.token(iat=now - 5, sub="bob"))
    assert _checks(place, "alice", now - 5, now - 4, 0) == [True, False, True]
    place.tenant.admin.delete(f"/v1/revocations/{revocations[1]}")
    assert place.is_active(place.token(iat=now - 5))
    assert not place.is_active(place.token(iat=now - 10))
    place.tenant.admin.delete(f"/v1/revocations/{revocations[0]}")
    assert place.is_active(place.token(iat=now - 10))
    assert _checks(place, "alice", 0) == [False]


def test_a_session_of_tokens(place: Place) -> None:
    """TOKEN-1, F2401b: A revoked session makes its tokens inactive, whatever their jti is."""
    token = {"kind": "jwt-session", "issuer": ISSUER, "value": "s-1"}
    assert place.is_active(place.token(sid="s-1"))
    place.tenant.admin.post("/v1/revocations", json={"token": token, "reason": "lost"})
    assert not place.is_active(place.token(sid="s-1", jti="good-7"))
    assert place.is_active(place.token(sid="s-2"))


_ALICE: dict[str, Any] = {"kind": "jwt-subject", "issuer": ISSUER, "value": "alice"}


def _revoke_subject(place: Place, issued_before: int, **more: Any) -> str:
    token = _ALICE | {"issued_before": issued_before}
    body = {"token": token, "reason": "left", **more}
    answer = place.tenant.admin.post("/v1/revocations", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _checks(place: Place, subject: str, *times: int) -> list[bool]:
    """Whether a check, alone and in a batch, calls tokens with these times revoked."""
    found = []
    for at in times:
        query = urlencode(
            {
                "token_kind": "jwt-subject",
                "token_issuer": ISSUER,
                "token_value": subject,
                "token_issued_before": at,
            }
        )
        answer = place.tenant.admin.get(f"/v1/revocations/check?{query}").json()
        own = answer["warrant_id"]
        assert own == token_id("jwt-subject", ISSUER, subject, at)
        body = {"warrant_ids": [own]}
        batch = place.tenant.admin.post("/v1/revocations/check-batch", json=body).json()
        assert batch["results"][own]["revoked"] is answer["revoked"]
        assert ("reason" in answer) is answer["revoked"]
        found.append(answer["revoked"])
    return found


def test_a_cutoff_ends_with_the_last_token(tenant: Tenant) -> None:
    """TOKEN-11, F2401c: A cutoff ends when the last of its tokens has expired, if that is known."""
    bound = _bound(tenant, token_max_seconds=86_400)
    place = Place(tenant, _served(tenant))
    ports, admin = tenant.ports, tenant.admin
    now = int(ports.now().timestamp())
    made = _ALICE | {"issued_before": now}
    admin.post("/v1/revocations", json={"token": made, "reason": "left"})
    assert _ends(place, **made) == now + 86_400
    unbound = made | {"issuer": "https://other.example"}
    admin.post("/v1/revocations", json={"token": unbound, "reason": "left"})
    assert _ends(place, **unbound) is None
    old = made | {"issued_before": now - 86_400}
    answer = admin.post("/v1/revocations", json={"token": old, "reason": "left"})
    assert (answer.status_code, "have expired" in answer.text) == (400, True)
    at = times.format_utc(times.from_seconds(now + 60))
    body = {"token": old, "reason": "left", "warrant_expires_at": at}
    assert admin.post("/v1/revocations", json=body).status_code == 201
    assert _ends(place, **old) == now + 60
    # Tokens of another audience may live for longer.
    _bound(tenant)
    later = made | {"issued_before": now + 1}
    admin.post("/v1/revocations", json={"token": later, "reason": "left"})
    assert _ends(place, **later) is None
    assert tenant.admin.get(f"/v1/tenant/identity-providers/{bound}").status_code == 200


def test_a_cutoff_of_the_far_future(place: Place) -> None:
    """TOKEN-11, F2842a: A cutoff more than a day ahead is refused: it would keep the subject out.

    It is refused as a token and as an identifier. In a batch it fails, and no other warrant does.
    """
    tenant = place.tenant
    now = int(tenant.ports.now().timestamp())
    latest, late = now + 86_400, now + 86_401
    name = token_id(**_ALICE, issued_before=late)
    for named in ({"token": _ALICE | {"issued_before": late}}, {"warrant_id": name}):
        answer = tenant.admin.post("/v1/revocations", json={**named, "reason": "left"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert "issued_before: must be at most a day from now" in answer.text
    body = {"action": "revoke", "reason": "left", "warrant_ids": [name, "svc_wrt_a"]}
    answers = tenant.admin.post("/v1/revocations/batch", json=body).json()["results"]
    failed, done = sorted(answers, key=lambda each: each["id"] != name)
    assert (failed["outcome"], failed["code"]) == ("failed", "invalid_request")
    assert "at most a day from now" in failed["message"]
    assert done["outcome"] == "revoked"
    assert _checks(place, "alice", 0) == [False]
    _revoke_subject(place, latest)
    assert _checks(place, "alice", latest) == [True]


def _ends(place: Place, **token: Any) -> int | None:
    address = warrant_address(place.tenant.id, token_id(**token))
    ends_at = WarrantState.of(place.tenant.ports.store.get(address)).end
    return None if ends_at is None else int(ends_at.timestamp())


def test_the_lifetime_of_tokens_can_be_set(tenant: Tenant) -> None:
    """TOKEN-3, F2401d: `token_max_seconds` moves the default end, for issuers of tokens."""
    bound = _bound(tenant, token_max_seconds=3_600)
    place, now = Place(tenant, _served(tenant)), int(tenant.ports.now().timestamp())
    _revoke_subject(place, now)
    assert _ends(place, **_ALICE, issued_before=now) == now + 3_600
    path = f"/v1/tenant/identity-providers/{bound}"
    assert tenant.admin.get(path).json()["token_max_seconds"] == 3_600
    usage = ProviderUsage.WORKLOAD
    with pytest.raises(InvalidRequest, match="token_max_seconds"):
        identities.bound(tenant.ports, tenant.operator, usage, token_max_seconds=3_600)


def test_no_warrant_has_the_identifier_of_a_cutoff(tenant: Tenant) -> None:
    """TOKEN-11, F2401e: The service signs no warrant that would stand for a subject."""
    cutoff = token_id("jwt-subject", ISSUER, "alice", 1)
    answer = signing.sign(tenant, signing.create(tenant)["id"], warrant_id=cutoff, format="cose")
    assert (answer.status_code, "all tokens" in answer.text) == (400, True), answer.text


_WRONG: dict[str, Callable[[Place], str]] = {
    "no token": lambda _: "mangled",
    "another issuer": lambda place: place.token(iss="https://other.example"),
    "no issuer": lambda place: place.token(iss=None),
    "another audience": lambda place: place.token(aud="others"),
    "expired": lambda place: place.token(exp=int(place.tenant.ports.now().timestamp())),
    "no end": lambda place: place.token(exp=None),
    "of the future": lambda place: place.token(nbf=int(place.tenant.ports.now().timestamp()) + 61),
    "without jti and iat": lambda place: place.token(jti=None, iat=None),
    "a jti of another kind": lambda place: place.token(jti=17),
    "a jti that has no identifier": lambda place: place.token(jti="a\nb"),
    "too long": lambda place: place.token(padding="x" * 16_384),
    "another signature": lambda place: f"{place.token().rsplit('.', 1)[0]}.{'A' * 86}",
    "unsigned": lambda place: place.token().rsplit(".", 1)[0] + ".",
}
_HEADERS: dict[str, tuple[dict[str, str], str]] = {
    "an unknown kid": ({"alg": "ES256", "kid": "k2"}, "ES256"),
    "no kid": ({"alg": "ES256"}, "ES256"),
    "alg none": ({"alg": "none", "kid": "k1"}, "ES256"),
    "a symmetric alg": ({"alg": "HS256", "kid": "k1"}, "ES256"),
    "an alg of another key": ({"alg": "ES384", "kid": "k1"}, "ES384"),
    "nested": ({"alg": "ES256", "kid": "k1", "cty": "JWT"}, "ES256"),
    "critical": ({"alg": "ES256", "kid": "k1", "crit": "exp"}, "ES256"),
    "of another type": ({"alg": "ES256", "kid": "k1", "typ": "secevent+jwt"}, "ES256"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_any_other_token_is_inactive(place: Place, case: str) -> None:
    """TOKEN-4, F1393b: What is forged, expired or cannot be revoked is exactly inactive."""
    assert place.is_active(place.token())
    assert place.ask(_WRONG[case](place)).json() == {"active": False}


@pytest.mark.parametrize("case", _HEADERS)
def test_a_header_that_confuses_is_inactive(place: Place, case: str) -> None:
    """TOKEN-4, F1393c: No header makes a token active that its issuer's key has not signed so."""
    header, algorithm = _HEADERS[case]
    claims = issuers.raw(place.token().split(".")[1])
    forged = issuers.signed(header, claims, issuers.key(algorithm), algorithm)
    assert place.ask(forged).json() == {"active": False}


@pytest.mark.parametrize(
    ("said", "scope"),
    [
        ({"scope": "read write"}, "read write"),
        ({"scope": ["read", "write"]}, "read write"),
        ({"scope": None, "scp": "read"}, None),
        ({"scope": 7}, None),
        ({"scope": [7]}, None),
    ],
)
def test_members_have_the_types_of_oauth(
    place: Place, said: dict[str, Any], scope: str | None
) -> None:
    """F2005a, TOKEN-4: Times are whole seconds, and `scope` is text (RFC 7662, 2.2)."""
    ends = place.tenant.ports.now().timestamp() + 60.5
    found = place.ask(place.token(exp=ends, **said)).json()
    assert found["active"] is True
    assert found["exp"] == int(ends)
    assert isinstance(found["exp"], int)
    assert found.get("scope") == scope


def test_scopes_of_entra_are_shown(place: Place) -> None:
    """F2005b: The claim `scp` is the scope of a token of Entra."""
    said = {"scp": "read", "jti": "a-1"}
    token = identities.token(place.tenant.ports, "accounts", **said)
    assert place.ask(token).json()["scope"] == "read"


def test_a_token_is_of_its_own_tenant(place: Place, other_tenant: Tenant) -> None:
    """TOKEN-4, F1393d: Of an issuer that another tenant has bound, a token is inactive."""
    assert place.is_active(place.token())
    assert not Place(other_tenant, place.http).is_active(place.token())


def test_the_key_may_be_a_password(place: Place) -> None:
    """TOKEN-4, F1394a: The API key is accepted as Bearer, and as the password of Basic."""
    secret = place.tenant.authorizer.secret
    assert secret is not None
    for password in (secret, secret.replace("_", "%5F")):
        basic = b64encode(f"gateway:{password}".encode()).decode()
        assert place.ask(place.token(), Authorization=f"Basic {basic}").json()["active"] is True


@pytest.mark.parametrize("given", ["", "Basic !", "Basic Z2F0ZTp3cm9uZw==", "Bearer svc_wrong"])
def test_who_has_no_key_learns_nothing(place: Place, given: str) -> None:
    """TOKEN-4, F1394b: Without a good key the answer is 401 `invalid_client`, as RFC 6749 says."""
    answer = place.ask(place.token(), Authorization=given)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert {*answer.json()} == {"error", "error_description"}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("content", ["", "token=", "token=a&token=b", "token_type_hint=a", "%zz"])
def test_a_request_without_a_token_is_refused(place: Place, content: str) -> None:
    """TOKEN-4, F1394c: A body without one token, or that is no form, is `invalid_request`."""
    key = {"Authorization": f"Bearer {place.tenant.authorizer.secret}"}
    answer = place.send(content, key)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    as_json = place.send('{"token": "a"}', key | {"Content-Type": "application/json"})
    assert (as_json.status_code, as_json.json()["error"]) == (400, "invalid_request")


def test_only_authorizers_ask(place: Place) -> None:
    """TOKEN-4, F1394d: Another scope is refused, and so are another method and a long body."""
    key = f"Bearer {place.tenant.client(Scope.READ_ONLY).secret}"
    answer = place.ask(place.token(), Authorization=key)
    assert (answer.status_code, answer.json()["error"]) == (403, "insufficient_scope")
    key = f"Bearer {place.tenant.authorizer.secret}"
    answer = place.http.request("GET", handler.PATH, headers={"Authorization": key})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = place.ask("x" * 25_000)
    assert (answer.status_code, answer.json()["error"]) == (413, "invalid_request")


def test_a_fault_of_the_store_is_no_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOKEN-4, F1394e: If the verdict cannot be read, the answer is 503 and not inactive."""
    store = place.tenant.ports.store
    read = store.get_many
    asked = warrant_address(place.tenant.id, token_id("jwt", ISSUER, "bad-1"))

    def failing(addresses: Any) -> Any:
        if asked in addresses:
            raise Unavailable("the store is down")
        return read(addresses)

    monkeypatch.setattr(store, "get_many", failing)
    answer = place.ask(place.token())
    assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize(
    "values",
    [
        {"client_id": None},
        {"jwks": None},
        {"jwks": {"keys": [{"kty": "RSA", "kid": "a", "n": "A" * 2048}] * 9}},
        {"email_domains": ("example.com",)},
        {"role_mappings": (RoleMapping({"sub": "a"}, "admin", "robot"),)},
    ],
)
def test_an_issuer_of_tokens_has_keys_and_an_audience(
    tenant: Tenant, values: dict[str, Any]
) -> None:
    """TOKEN-3, F1395a: An issuer of tokens has an audience and its keys, and admits nobody."""
    with pytest.raises(InvalidRequest):
        _bound(tenant, **values)


def test_nobody_signs_in_by_such_tokens(place: Place) -> None:
    """TOKEN-3, F1395b: A token that is only introspected is exchanged for no session."""
    ports = place.tenant.ports
    (provider,) = identity_providers.page(
        ports, place.tenant.operator, before=None, limit=2
    ).entries
    form = {
        "grant_type": sign_in.EXCHANGE,
        "audience": provider.id,
        "subject_token": place.token(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
    }
    with pytest.raises(SignInRefused) as refused:
        sign_in.prepare(ports, form)
    assert refused.value.fault is OAuthErrorCode.INVALID_TARGET


def test_keys_are_rotated_and_withdrawn(place: Place) -> None:
    """TOKEN-3, F1395c: When the keys of an issuer change, or it is deleted, its tokens follow."""
    ports, operator = place.tenant.ports, place.tenant.operator
    (provider,) = identity_providers.page(ports, operator, before=None, limit=2).entries
    other = issuers.public(issuers.key("ES256", 1), kid="k1")
    change = ProviderChange(jwks={"keys": [other]})
    identity_providers.update(ports, operator, provider_id=provider.id, change=change)
    assert not place.is_active(place.token())
    now = int(ports.now().timestamp())
    claims = {"iss": ISSUER, "aud": "accounts", "jti": "a", "exp": now + 100_000}
    header = {"alg": "ES256", "kid": "k1", "typ": "at+jwt"}
    assert place.is_active(issuers.signed(header, claims, issuers.key("ES256", 1)))
    identity_providers.delete(ports, operator, provider_id=provider.id)
    assert not place.is_active(issuers.signed(header, claims, issuers.key("ES256", 1)))
