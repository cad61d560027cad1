"""Certificates of signing keys: what a thief of the list signer cannot add."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.signing_keys import (
    Certificate,
    PublishedKey,
    PublishedKeys,
    covering,
)
from tests.authorizer.feeds import NOW, TENANT, signer
from tests.authorizer.roots import public_of
from tests.kit.processor import seconds

_ROOT: Final = PublishedKey("svc_key_a", 1, "root", "active", public_of(1), NOW)
_COVERED: Final = covering([_ROOT])


@dataclass
class _Blob:
    """Keys below a root that a document covers. A key's number is that of its seed."""

    numbers: dict[str, int] = field(default_factory=lambda: {_ROOT.name: 1})
    keys: list[PublishedKey] = field(default_factory=lambda: [_ROOT])

    def add(self, by: str, number: int, tenant_id: str = TENANT, **members: Any) -> PublishedKey:
        """Add a key that the key `by` certifies: an issuer below it, unless `members` differ."""
        parent = by.partition("#")[0]
        issuer = PublishedKey(
            f"svc_key_{number}", 1, "issuer", "active", public_of(number), NOW, parent
        )
        key = issuer._replace(**members)
        signature = signer(self.numbers.get(by, 9)).sign(key.certified_part(tenant_id, by))
        made = key._replace(certificate=Certificate(by, signature))
        self.numbers[made.name] = number
        self.keys.append(made)
        return made

    def made(self) -> PublishedKeys:
        return PublishedKeys.decode(PublishedKeys(TENANT, tuple(self.keys)).encode())


def _whole() -> _Blob:
    """Two versions of the root, an issuer by the second, an issuer below it, a notary of three."""
    blob = _Blob()
    blob.add("svc_key_a#1", 2, key_id="svc_key_a", version=2, type="root", parent_id=None)
    blob.add("svc_key_a#2", 3)
    blob.add("svc_key_3#1", 4)
    blob.add("svc_key_4#1", 5, type="notary")
    for version in (2, 3):
        members: dict[str, Any] = {"key_id": "svc_key_5", "version": version}
        blob.add(
            f"svc_key_5#{version - 1}", 4 + version, parent_id="svc_key_4", type="notary", **members
        )
    return blob


def _is_refused(keys: PublishedKeys, covered: bytes = _COVERED, **known: Any) -> bool:
    try:
        keys.check(covered, **known)
    except NotTrusted as refused:
        return refused.reason is RootReason.CERTIFICATE
    return False


def test_certificates_lead_from_each_key_to_what_the_document_covers() -> None:
    """TRUST-15, F860a: Keys and versions that came after the document are believed.

    Their state may change, and so may that of the covered ones.
    """
    keys = _whole().made()
    keys.check(_COVERED)
    for state in ("suspended", "revoked"):
        changed = tuple(
            each._replace(status=state, suspended_at=NOW, revoked_at=NOW) for each in keys.keys
        )
        replace(keys, keys=changed).check(_COVERED)
        assert replace(keys, keys=changed).proven == keys.proven
    PublishedKeys(TENANT, (_ROOT,)).check(_COVERED)


def test_keys_that_vouch_for_each_other_are_refused() -> None:
    """TRUST-15, F860b: Certificates in a circle lead to no key that the document covers."""
    blob = _Blob()
    blob.numbers |= {"svc_key_7#1": 7, "svc_key_8#1": 8}
    blob.add("svc_key_8#1", 7)
    blob.add("svc_key_7#1", 8)
    assert _is_refused(blob.made())


def test_a_document_covers_the_keys_as_a_whole() -> None:
    """TRUST-15, F860c: A covered key is neither left out nor another one, nor is one added."""
    covered = [_ROOT, _ROOT._replace(key_id="svc_key_b", type="issuer", parent_id="svc_key_a")]
    name = covering(covered)
    PublishedKeys(TENANT, tuple(covered)).check(name)
    others: list[dict[str, Any]] = [
        {"key_id": "svc_key_c"},
        {"version": 2},
        {"type": "notary"},
        {"parent_id": None},
        {"public_key": public_of(2)},
    ]
    for changes in others:
        altered = (_ROOT, covered[1]._replace(**changes))
        assert _is_refused(PublishedKeys(TENANT, altered), name)
    assert _is_refused(PublishedKeys(TENANT, (_ROOT,)), name)
    assert _is_refused(PublishedKeys(TENANT, tuple(covered)))


def test_each_byte_of_a_certificate_counts() -> None:
    """TRUST-15, F860d: With one bit of a signature changed, the blob is refused.

    So it is if another version of it was checked before.
    """
    keys = _whole().made()
    *others, last = keys.keys
    assert last.certificate is not None
    by, signature = last.certificate
    for place in range(len(signature)):
        flipped = bytearray(signature)
        flipped[place] ^= 1
        forged = last._replace(certificate=Certificate(by, bytes(flipped)))
        altered = replace(keys, keys=(*others, forged))
        assert _is_refused(altered)
        assert _is_refused(altered, proven=keys.proven)


def _many(count: int) -> PublishedKeys:
    blob, name = _Blob(), "svc_key_" + 26 * "0"
    blob.keys = [_ROOT._replace(key_id=name)]
    blob.numbers = {f"{name}#1": 1}
    for number in range(1, count + 1):
        blob.add(f"{name}#1", 2, key_id=f"svc_key_{number:026}")
    return blob.made()


def test_certificates_are_verified_by_change_only() -> None:
    """F860e: A blob that was checked costs no verification again, and covered keys cost none.

    A certificate for each key would make a blob larger by more than the half.
    """
    keys = _many(1_000)
    bare = PublishedKeys(TENANT, tuple(each._replace(certificate=None) for each in keys.keys))
    size, certified = len(bare.encode()), len(keys.encode())
    root, all_covered, proven = covering(keys.keys[:1]), covering(bare.keys), keys.proven
    first = seconds(lambda: keys.check(root), tries=5)
    again = seconds(lambda: keys.check(root, proven=proven), tries=5)
    whole = seconds(lambda: bare.check(all_covered), tries=5)
    print(
        f"1,000 keys: {size} bytes and {whole * 1e3:.1f} ms if they are covered,"
        f" {certified} bytes and {first * 1e3:.0f} ms with certificates, again {again * 1e3:.1f} ms"
    )
    assert 1.5 * size < certified
    assert max(again, whole) < first / 5
