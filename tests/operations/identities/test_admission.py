"""The end of a sign-in: who it is, in one write (IDENTITY-4, IDENTITY-6)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from shared.errors import Conflict, PreconditionFailed, Unavailable
from shared.model.callers import Scope
from shared.model.identities.claims import IdentityClaims, OAuthErrorCode, SignInRefused
from shared.model.identities.people import Person
from shared.model.identities.providers import IdentityProvider, ProviderUsage, RoleMapping
from shared.model.tenants import settings_address
from shared.operations.identities import identity_providers, people, sessions, tickets
from shared.operations.identities.admission import UnauthenticatedClient, admit
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.identities.sessions import StartedSession
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.engines import worlds
from tests.kit.identities import bound, claims, signed_in
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

STRANGER = UnauthenticatedClient("192.0.2.7", "0123456789abcdef")


@pytest.fixture
def provider(ports: Ports, tenant: Tenant) -> IdentityProvider:
    return bound(ports, tenant.operator)


@pytest.fixture(params=["sqlite-file", "postgresql", "moto"])
def anywhere(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Ports]:
    """Ports on each kind of store, for several threads."""
    monkeypatch.setattr(worlds, "ON", request.param)
    turn = Lock()

    def in_turn(call: Call) -> Any:
        with turn:
            return call.complete()

    with worlds.chosen(tmp_path, Clock()) as ports:
        # moto takes one call at a time; calls of several threads still come in any order.
        is_moto = request.param == "moto"
        yield replace(ports, store=Intercepted(ports.store, in_turn)) if is_moto else ports


def everybody(ports: Ports, tenant: Tenant) -> list[Person]:
    return people.page(ports, tenant.operator, before=None, limit=100).entries


def refused(call: Callable[[], object], *, with_: OAuthErrorCode = OAuthErrorCode.DENIED) -> str:
    with pytest.raises(SignInRefused) as refusal:
        call()
    assert refusal.value.fault is with_
    return str(refusal.value)


@pytest.mark.slow_on("moto")
def test_a_token_makes_one_session(anywhere: Ports) -> None:
    """IDENTITY-6, F1145a: Of eight sign-ins at once by one token, one succeeds, on each store.

    There is then one person, one session and one entry in the audit log about it.
    """
    tenant = Tenant.create(anywhere)
    provider, said = bound(anywhere, tenant.operator), claims(anywhere)

    def attempt(_: int) -> StartedSession | OAuthErrorCode:
        try:
            return admit(anywhere, provider, said, STRANGER)
        except SignInRefused as refusal:
            return refusal.fault

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(attempt, range(8)))
    assert (
        sorted(map(str, (each for each in done if isinstance(each, OAuthErrorCode))))
        == ["invalid_grant"] * 7
    )
    assert len(everybody(anywhere, tenant)) == 1
    listed, _ = sessions.page(anywhere, tenant.operator, before=None, limit=100)
    assert listed == [each.session for each in done if isinstance(each, StartedSession)]
    assert tenant.actions(anywhere).count("session.create") == 1


@pytest.mark.slow_on("moto")
def test_a_ticket_makes_one_session(anywhere: Ports) -> None:
    """IDENTITY-8, F450d: Of eight who redeem a ticket at once, one is signed in, on each store."""
    tenant = Tenant.create(anywhere)
    ticket = tickets.issue(anywhere, tenant.operator)

    def attempt(_: int) -> StartedSession | OAuthErrorCode:
        try:
            return tickets.redeem(anywhere, STRANGER, ticket)
        except SignInRefused as refusal:
            return refusal.fault

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(attempt, range(8)))
    assert done.count(OAuthErrorCode.INVALID_GRANT) == 7
    listed, _ = sessions.page(anywhere, tenant.operator, before=None, limit=100)
    assert listed == [each.session for each in done if isinstance(each, StartedSession)]


def test_no_ticket_of_a_tenant_that_is_removed(ports: Ports, tenant: Tenant) -> None:
    """F450e: If the removal of a tenant began meanwhile, no ticket is made, which would remain."""
    ports.store.write(Delete(settings_address(tenant.id), Expect.PRESENT))
    with pytest.raises(PreconditionFailed):
        tickets.issue(ports, tenant.operator)


@pytest.mark.slow_on("moto")
def test_one_person_signs_in_twice_at_once(anywhere: Ports) -> None:
    """IDENTITY-4, F1145b: The first sign-ins of a person at once, by several tokens, make one."""
    tenant = Tenant.create(anywhere)
    provider = bound(anywhere, tenant.operator)
    said = [claims(anywhere) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda each: admit(anywhere, provider, each, STRANGER), said))
    assert {each.session.owner for each in made} == {
        each.id for each in everybody(anywhere, tenant)
    }
    assert len({each.session.owner for each in made}) == 1


def test_a_reusable_token(ports: Ports, tenant: Tenant) -> None:
    """F1145c: A token is exchanged again only if the provider of the program allows it."""
    tenant.account(ports, "robot")
    provider = bound(ports, tenant.operator, ProviderUsage.WORKLOAD, allow_token_reuse=True)
    said = claims(ports)
    first, second = (admit(ports, provider, said, STRANGER) for _ in range(2))
    assert first.session.id != second.session.id


def test_a_known_person_is_renewed(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """IDENTITY-4, F1146a: A person keeps the identifier under another e-mail, name and role.

    The former e-mail is then free for another person.
    """
    first = signed_in(ports, provider).session
    renewed = signed_in(
        ports, provider, Scope.REVOKER, email="a.martin@example.com", name="Alice Martin"
    ).session
    (alice,) = everybody(ports, tenant)
    assert alice.id == first.owner == renewed.owner
    assert (alice.email, alice.name, alice.role) == (
        "a.martin@example.com",
        "Alice Martin",
        Scope.REVOKER,
    )
    signed_in(ports, provider, sub="other", email="alice@example.com")


def test_a_person_under_another_subject(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """IDENTITY-4, F1146b: Nobody becomes a person whose e-mail another active person has.

    If that one is disabled, the e-mail goes to a new person, and cannot go back meanwhile.
    """
    alice = signed_in(ports, provider).session.owner

    def come_back() -> StartedSession:
        return signed_in(ports, provider, sub="mallory", email="ALICE@example.com")

    assert "Another person" in refused(come_back)
    people.disable(ports, tenant.operator, person_id=alice)
    assert come_back().session.owner != alice
    with pytest.raises(Conflict):
        people.enable(ports, tenant.operator, person_id=alice)


def test_a_disabled_person_stays_out(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """IDENTITY-4, F1146c: A disabled person cannot sign in; when enabled again, the person can."""
    alice = signed_in(ports, provider).session.owner
    people.disable(ports, tenant.operator, person_id=alice)
    assert "disabled" in refused(lambda: signed_in(ports, provider))
    people.enable(ports, tenant.operator, person_id=alice)
    assert signed_in(ports, provider).session.owner == alice


@pytest.mark.parametrize(
    "said",
    [
        {"email": None},
        {"email": "alice@elsewhere.com"},
        {"email": "alice@sub.example.com"},
    ],
)
def test_an_e_mail_that_is_not_the_tenants(
    ports: Ports, tenant: Tenant, said: dict[str, Any]
) -> None:
    """IDENTITY-4, F1146d: Without an e-mail of an allowed domain, nobody comes in."""
    provider = bound(ports, tenant.operator, email_domains=("example.com",))
    refused(lambda: signed_in(ports, provider, **said))
    assert everybody(ports, tenant) == []


def test_no_grant_no_session(ports: Ports, tenant: Tenant, provider: IdentityProvider) -> None:
    """IDENTITY-2, F1146e: Whom no role mapping names gets no session, and leaves nothing behind."""
    refused(lambda: signed_in(ports, provider, members={"groups": "root"}))
    assert everybody(ports, tenant) == []
    assert "session.create" not in tenant.actions(ports)


def test_a_program_needs_its_account(ports: Ports, tenant: Tenant) -> None:
    """F1146f: A program whose service account is missing or disabled gets no session."""
    provider = bound(ports, tenant.operator, ProviderUsage.WORKLOAD)
    assert "does not exist" in refused(lambda: signed_in(ports, provider))


def test_a_change_in_between_counts(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """F1147a: A sign-in by a provider that has changed since its token was checked is not made."""
    change = ProviderChange(email_domains=("elsewhere.com",))
    identity_providers.update(ports, tenant.operator, provider_id=provider.id, change=change)
    refused(lambda: signed_in(ports, provider), with_=OAuthErrorCode.INVALID_GRANT)
    identity_providers.delete(ports, tenant.operator, provider_id=provider.id)
    refused(lambda: signed_in(ports, provider), with_=OAuthErrorCode.INVALID_TARGET)


def test_who_is_disabled_meanwhile_stays_out(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """F1147b: A person who is disabled just before the write of a sign-in does not come in."""
    alice = signed_in(ports, provider).session.owner

    def disabling(call: Call) -> Any:
        if (
            call.verb == "write"
            and call.arguments
            and people.get(ports, tenant.operator, person_id=alice).is_active
        ):
            people.disable(ports, tenant.operator, person_id=alice)
        return call()

    raced = replace(ports, store=Intercepted(ports.store, disabling))
    refused(lambda: signed_in(raced, provider))


def test_a_lost_answer_gives_nothing_twice(
    ports: Ports, tenant: Tenant, provider: IdentityProvider
) -> None:
    """F1147c: If the outcome of the write is unknown, the token is not accepted again.

    The person signs in once more, and has the one identifier.
    """

    def losing(call: Call) -> Any:
        call()
        if call.verb == "write":
            raise Unavailable
        return call()

    said: IdentityClaims = claims(ports)
    torn = replace(ports, store=Intercepted(ports.store, losing))
    with pytest.raises(Unavailable):
        admit(torn, provider, said, STRANGER)
    refused(lambda: admit(ports, provider, said, STRANGER), with_=OAuthErrorCode.INVALID_GRANT)
    signed_in(ports, provider)
    assert len(everybody(ports, tenant)) == 1


def test_an_unverified_email_gives_no_role(ports: Ports, tenant: Tenant) -> None:
    """F2003a, IDENTITY-2: A role mapping or a domain of e-mail needs a verified address."""
    of_email = (RoleMapping({"email": "ann@example.com"}, "admin"),)
    domains = ("example.com",)
    unverified = {"email": "ann@example.com", "sub": "ann", "groups": "admin"}
    for values in (
        {"role_mappings": of_email},
        {"role_mappings": of_email, "email_domains": domains},
    ):
        # Another provider would give another person, who cannot have the same e-mail.
        own = Tenant.another(ports)
        provider = bound(ports, own.operator, **values)
        message = refused(partial(signed_in, ports, provider, sub="ann", members=unverified))
        assert "trusts_email" in message
        verified = unverified | {"email_verified": True}
        assert signed_in(ports, provider, sub="ann", members=verified).role.name == "admin"
        change = ProviderChange(trusts_email=True)
        made = identity_providers.update(
            ports, own.operator, provider_id=provider.id, change=change
        )
        assert signed_in(ports, made, sub="ann", members=unverified).role.name == "admin"
    both = {"sub": "ann", "/email": "ann@example.com"}
    role_mappings = (
        RoleMapping(both, "admin", "robot"),
        RoleMapping({"sub": "ann"}, "revoker", "robot"),
    )
    tenant.account(ports, "robot")
    other = bound(ports, tenant.operator, ProviderUsage.WORKLOAD, role_mappings=role_mappings)
    session = signed_in(ports, other, sub="ann", email=None, members=unverified)
    assert session.role.name == "revoker"


def test_an_unverified_email_is_no_identity(ports: Ports, tenant: Tenant) -> None:
    """F2872a, IDENTITY-4: Whoever states an unverified e-mail gets no session, and takes no e-mail.

    A mapping by another claim is no reason: the audit log would name the owner of the address, who
    could then not sign in.
    """
    provider = bound(
        ports, tenant.operator, role_mappings=(RoleMapping({"groups": "admin"}, "admin"),)
    )
    said = {"groups": "admin", "email": "ceo@example.com"}
    message = refused(
        partial(signed_in, ports, provider, sub="mallory", email="ceo@example.com", members=said)
    )
    assert "trusts_email" in message
    assert everybody(ports, tenant) == []
    verified = said | {"email_verified": True}
    ceo = signed_in(ports, provider, sub="ceo", members=verified).session
    assert ceo.identity == "ceo@example.com"


@pytest.mark.parametrize(
    ("step_up", "evidence", "is_fresh"),
    [
        ("auth_time", {}, False),
        ("auth_time", {"acr": "mfa"}, False),
        ("sign_in", {}, True),
        ("acr:mfa phr", {"acr": "phr"}, True),
        ("acr:mfa phr", {"acr": "pwd"}, False),
        ("acr:mfa phr", {"acr": ["mfa"]}, False),
        ("acr:mfa phr", {}, False),
    ],
)
def test_a_fresh_sign_in_needs_evidence(
    ports: Ports, tenant: Tenant, step_up: str, evidence: dict[str, Any], is_fresh: bool
) -> None:
    """F2003b, AUTH-17: Without the evidence of `step_up`, a sign-in is never fresh."""
    provider = bound(ports, tenant.operator, step_up=step_up)
    members = {"groups": "admin", "sub": "ann", "email_verified": True, **evidence}
    made = signed_in(ports, provider, sub="ann", auth_time=None, members=members)
    assert (made.session.authenticated_at == ports.now()) is is_fresh
    long_ago = ports.now() - timedelta(hours=1)
    again = signed_in(ports, provider, sub="ann", auth_time=long_ago, members=members)
    assert again.session.authenticated_at in (None, long_ago)
