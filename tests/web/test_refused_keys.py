"""Keys that do not open, and what their holders are told (AUTH-2)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import InvalidApiKey
from shared.model import api_keys as model
from shared.model.api_keys import Credential, CredentialTombstone
from shared.model.callers import Scope
from shared.model.items import Item
from shared.model.rate_limit import BURST
from shared.ports.store import Delete, Expect, Put
from tests.kit.api import Tenant, serve
from tests.kit.asgi import bearer, send
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

PATH = "/v1/api-keys"
UNKNOWN = str(InvalidApiKey())
REVOKED = "The API key was revoked."
EXPIRED = "The API key has expired."
DISABLED = "The service account of the API key is disabled."


def unknown(_tenant: Tenant, _clock: Clock) -> str:
    return model.new_secret()


def malformed(_tenant: Tenant, _clock: Clock) -> str:
    return "svc_" + "+" * 43


def revoked(tenant: Tenant, _clock: Clock) -> str:
    client = tenant.client(Scope.ADMIN)
    assert tenant.admin.post(f"{PATH}/{client.key_id}/revoke").status_code == 200
    return str(client.secret)


def rotated(tenant: Tenant, _clock: Clock, grace: int = 0) -> str:
    client = tenant.client(Scope.ADMIN)
    body = {"grace_seconds": grace}
    assert tenant.admin.post(f"{PATH}/{client.key_id}/rotate", json=body).status_code == 201
    return str(client.secret)


def after_grace(tenant: Tenant, clock: Clock) -> str:
    secret = rotated(tenant, clock, 60)
    clock.advance(seconds=60)
    return secret


def deleted(tenant: Tenant, _clock: Clock) -> str:
    client = tenant.client(Scope.ADMIN)
    assert tenant.admin.delete(f"{PATH}/{client.key_id}").status_code == 204
    return str(client.secret)


def deleted_later(tenant: Tenant, _clock: Clock) -> str:
    client = tenant.client(Scope.ADMIN)
    assert tenant.admin.post(f"{PATH}/{client.key_id}/revoke").status_code == 200
    assert tenant.admin.delete(f"{PATH}/{client.key_id}").status_code == 204
    return str(client.secret)


def revoked_without_a_note(tenant: Tenant, clock: Clock) -> str:
    secret = revoked(tenant, clock)
    note = model.revocation_note_address(model.digest(secret))
    tenant.ports.store.write(Delete(note, Expect.PRESENT))
    return secret


def expired(tenant: Tenant, clock: Clock) -> str:
    at = clock().replace(hour=13)
    client = tenant.client(Scope.ADMIN, expires_at=at)
    clock.moment = at
    return str(client.secret)


def disabled(tenant: Tenant, _clock: Clock) -> str:
    client = tenant.client(Scope.ADMIN)
    credential = Credential.from_item(stored(tenant, str(client.secret)))
    closed = replace(credential, disabled=True)
    tenant.ports.store.write(Put(closed.address, closed.to_item(), Expect.PRESENT))
    return str(client.secret)


def stored(tenant: Tenant, secret: str) -> Item:
    item = tenant.ports.store.get(model.credential_address(model.digest(secret)))
    assert item is not None
    return item


def told(tenant: Tenant, secret: str) -> tuple[int, str, str]:
    answer = tenant.holding(secret).get(PATH)
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


MESSAGES: dict[Callable[[Tenant, Clock], str], str] = {
    malformed: UNKNOWN,
    revoked: REVOKED,
    rotated: REVOKED,
    after_grace: EXPIRED,
    deleted: UNKNOWN,
    deleted_later: UNKNOWN,
    revoked_without_a_note: UNKNOWN,
    expired: EXPIRED,
    disabled: DISABLED,
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_keys_that_do_not_open_are_alike(
    tenant: Tenant, clock: Clock, kind: Callable[[Tenant, Clock], str]
) -> None:
    """AUTH-2, F16a, S1: Keys that are not valid get answers alike but for the message.

    They cost the same reads.
    """
    seen: list[Any] = []
    for secret in [unknown(tenant, clock), kind(tenant, clock)]:
        script = Script()
        app = serve(scripted(tenant.ports, script)).app
        answer = send(app, "GET", PATH, headers=bearer(secret))
        own = {"x-request-id", "content-length"}
        headers = {k: v for k, v in answer.headers.items() if k not in own}
        error = answer.json()["error"]
        seen.append((answer.status_code, headers, error["code"], {*error}, script.calls))
    assert seen[0] == seen[1]
    assert seen[0][0] == 401
    assert seen[0][1]["www-authenticate"] == "Bearer"
    assert seen[0][4] == ["get", "get"]


@pytest.mark.slow
def test_refusals_are_explained_within_the_limit(tenant: Tenant, clock: Clock) -> None:
    """AUTH-2, AUTH-9, F16b: Without a token of its address, a refused key costs one read and 429.

    The second read, which is for the message, is not made.
    """
    secrets = [kind(tenant, clock) for kind in (malformed, revoked, disabled, expired)]
    script = Script()
    app = serve(scripted(tenant.ports, script)).app
    assert {send(app, "GET", PATH).status_code for _ in range(BURST)} == {401}
    assert script.calls == []
    for secret in secrets:
        assert send(app, "GET", PATH, headers=bearer(secret)).status_code == 429
    assert script.calls == ["get"] * len(secrets)


@pytest.mark.parametrize("kind", MESSAGES)
def test_the_holder_learns_why_a_key_is_refused(
    tenant: Tenant, clock: Clock, kind: Callable[[Tenant, Clock], str]
) -> None:
    """AUTH-2, F605a: The holder of an expired, revoked or disabled key reads which of these it is.

    A deleted key is unknown.
    """
    secret = kind(tenant, clock)
    assert told(tenant, secret) == (401, "invalid_api_key", MESSAGES[kind])


@pytest.mark.parametrize("kind", [revoked, expired, disabled])
def test_who_guesses_learns_nothing(
    tenant: Tenant, clock: Clock, kind: Callable[[Tenant, Clock], str]
) -> None:
    """AUTH-2, F605b, S1: A caller with less than the whole secret of a key learns nothing of it."""
    secret = kind(tenant, clock)
    last = "A" if secret[-1] != "A" else "B"
    digest = model.digest(secret)
    for guess in (secret[:-1], secret[:-1] + last, f"{secret}A", "svc_" + digest[:43], digest):
        assert told(tenant, guess) == (401, "invalid_api_key", UNKNOWN)


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_malformed_key_opens_nothing_even_if_stored(
    tenant: Tenant, clock: Clock, is_expired: bool
) -> None:
    """F16: a key of another form is refused, and learns nothing, even if its credential exists."""
    forged = replace(
        Credential.from_item(stored(tenant, str(tenant.admin.secret))),
        digest=model.digest("nonsense"),
        expires_at=clock() if is_expired else None,
    )
    tenant.ports.store.write(Put(forged.address, forged.to_item(), Expect.ABSENT))
    assert told(tenant, "nonsense") == (401, "invalid_api_key", UNKNOWN)


def test_a_note_has_nothing_that_admits(tenant: Tenant, clock: Clock) -> None:
    """F606a: The note of a revoked key has no scopes, no identity and no name."""
    digest = model.digest(revoked(tenant, clock))
    assert tenant.ports.store.get(model.credential_address(digest)) is None
    note = tenant.ports.store.get(model.revocation_note_address(digest))
    assert note is not None
    assert {*note} == {"digest", "tenant_id", "revoked_at"}
    assert CredentialTombstone.from_item(note).tenant_id == tenant.id


def test_no_note_opens(tenant: Tenant, clock: Clock) -> None:
    """F606b, S1: No item opens by the note on a revoked key, and no note opens as a credential."""
    client = tenant.client(Scope.ADMIN)
    credential = stored(tenant, str(client.secret))
    assert tenant.admin.post(f"{PATH}/{client.key_id}/revoke").status_code == 200
    digest = model.digest(str(client.secret))
    at, opening = model.revocation_note_address(digest), model.credential_address(digest)
    note = tenant.ports.store.get(at)
    assert note is not None
    as_note: list[Item] = [credential, {**credential, **note}, {}, {"scopes": ["admin"]}]
    for planted in as_note:
        tenant.ports.store.write(Put(at, planted, Expect.PRESENT))
        assert told(tenant, str(client.secret)) == (401, "invalid_api_key", REVOKED)
    as_credential: list[Item] = [note, {**note, "scopes": ["admin"]}, {**note, "key_id": "k"}]
    for planted in as_credential:
        tenant.ports.store.write(Put(opening, planted, Expect.ANYTHING))
        assert told(tenant, str(client.secret))[:2] == (503, "unavailable")
