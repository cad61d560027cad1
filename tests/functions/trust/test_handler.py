"""Trust documents over HTTP (TRUST-17)."""

from typing import Any

from functions.trust import published_keys
from shared.authorizer.formats import documents, following
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import PublishedKeys
from shared.authorizer.formats.trust import RootSet
from shared.authorizer.formats.wire import HashReference
from shared.model.callers import Scope
from shared.operations.changes import list_signers
from shared.operations.lists import in_force
from shared.operations.lists.storage import SeedCache
from tests.functions.signing import child, create, moved, refusal
from tests.kit.api import Tenant
from tests.kit.roots import OFFLINE, SeedRoot, body_of, roots_of, signed_draft
from tests.kit.worlds import Clock

PATH = "/v1/trust"
OTHERS = (SeedRoot(2), SeedRoot(3), SeedRoot(4))


def asked(tenant: Tenant, after: int = 0) -> list[SignedDocument]:
    answer = tenant.client(Scope.READ_ONLY).get(PATH, params={"after": after})
    assert answer.status_code == 200, answer.text
    return [*documents.documents(answer.content)]


def put(tenant: Tenant, made: SignedDocument) -> Any:
    return tenant.admin.request("PUT", PATH, json=body_of(made))


def published(tenant: Tenant, *signing: SeedRoot, roots: RootSet | None = None) -> int:
    """The version of a document that these roots have signed."""
    answer = put(tenant, signed_draft(tenant.ports, tenant.operator, *signing, roots=roots))
    assert answer.status_code == 200, answer.text
    return int(answer.json()["version"])


def named_keys(tenant: Tenant) -> HashReference:
    newest = in_force.read_feed_head(tenant.ports, tenant.id)
    assert newest is not None
    assert newest.signed_head.keys is not None
    return newest.signed_head.keys


def test_the_keys_that_the_feed_names(tenant: Tenant) -> None:
    """TRUST-9, F677a: The feed names the signing keys as they are, with what became of each."""
    root = create(tenant)
    published(tenant)
    below, later = child(tenant, root), create(tenant)
    moved(tenant, root["id"], "revoke", reason="stolen")
    assert published_keys.publish_key_reference(tenant.ports, SeedCache(tenant.ports), tenant.id)
    reference = named_keys(tenant)
    answer = tenant.authorizer.get(f"{PATH}/keys/{reference.sha256.hex()}")
    keys = PublishedKeys.from_blob(answer.content, reference, tenant_id=tenant.id)
    held = asked(tenant)[-1].document
    keys.check(held.signing_keys)
    assert {each.key_id: each.is_revoked for each in keys.keys} == {
        root["id"]: True,
        below["id"]: False,
    }
    # Nobody vouches for a new root, so it waits for the next document.
    published(tenant)
    found = PublishedKeys.decode(
        tenant.authorizer.get(f"{PATH}/keys/{named_keys(tenant).sha256.hex()}").content
    )
    assert {each.key_id for each in found.keys} == {root["id"], below["id"], later["id"]}
    assert "immutable" in answer.headers["Cache-Control"]
    real = reference.sha256.hex()
    for form in ("0" * 64, real[:-1], f"{real}0", real.upper(), "x", "%00", f"{real}%0A"):
        assert refusal(tenant.authorizer.get(f"{PATH}/keys/{form}")) == (404, "not_found")


def test_a_client_is_sent_what_it_lacks(tenant: Tenant) -> None:
    """TRUST-17, F676a: A client with the first pin is sent each change of roots, and the newest."""
    assert asked(tenant) == []
    pin = roots_of(OFFLINE).pin
    versions = [published(tenant), published(tenant)]
    two_of_three = roots_of(*OTHERS, threshold=2)
    versions += [published(tenant, OFFLINE, *OTHERS[:2], roots=two_of_three)]
    versions += [published(tenant, *OTHERS[1:]), published(tenant, *OTHERS[1:])]
    assert versions == [1, 2, 3, 4, 5]
    assert [each.document.version for each in asked(tenant)] == [1, 3, 5]
    assert [each.document.version for each in asked(tenant, after=3)] == [5]
    assert asked(tenant, after=5) == []
    state = following.follow(TrustState(tenant.id, pin), asked(tenant), tenant.ports.now())
    assert state.version == 5


def test_an_answer_is_confirmed(tenant: Tenant) -> None:
    """TRUST-17: The same question is answered with 304 until there is another document."""
    published(tenant)
    etag = tenant.authorizer.get(PATH).headers["ETag"]
    again = tenant.authorizer.get(PATH, headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    published(tenant)
    assert tenant.authorizer.get(PATH, headers={"If-None-Match": etag}).status_code == 200


def test_too_few_roots(tenant: Tenant) -> None:
    """TRUST-17, F676b: A document is refused unless the roots before and its own have signed it."""
    published(tenant)
    stranger = signed_draft(tenant.ports, tenant.operator, OTHERS[0])
    assert refusal(put(tenant, stranger)) == (400, "invalid_signature")
    others = roots_of(*OTHERS, threshold=2)
    for signing in ((OFFLINE,), OTHERS, (OFFLINE, OTHERS[0])):
        made = signed_draft(tenant.ports, tenant.operator, *signing, roots=others)
        assert refusal(put(tenant, made)) == (400, "invalid_signature")
    assert [each.document.version for each in asked(tenant)] == [1]


def test_an_outdated_draft(tenant: Tenant, clock: Clock) -> None:
    """TRUST-17, F676c: A draft is refused after another document, and if signers changed since."""
    early = signed_draft(tenant.ports, tenant.operator)
    clock.advance(seconds=1)
    late = signed_draft(tenant.ports, tenant.operator)
    assert put(tenant, early).status_code == 200
    # It is published already, so nothing changes.
    assert put(tenant, early).json()["version"] == 1
    assert refusal(put(tenant, late)) == (409, "conflict")
    made = signed_draft(tenant.ports, tenant.operator)
    list_signers.create(tenant.ports, tenant.operator)
    assert refusal(put(tenant, made)) == (409, "conflict")
    assert published(tenant) == 2
    assert refusal(put(tenant, made)) == (409, "conflict")


def test_the_draft_of_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    """TRUST-17, S2: A document of another tenant is refused, and its keys are not found."""
    made = signed_draft(other_tenant.ports, other_tenant.operator)
    assert refusal(put(tenant, made)) == (400, "invalid_request")
    assert put(other_tenant, made).status_code == 200
    path = f"{PATH}/keys/{named_keys(other_tenant).sha256.hex()}"
    assert other_tenant.authorizer.get(path).status_code == 200
    assert refusal(tenant.authorizer.get(path)) == (404, "not_found")
