"""Certificates of signing keys: what a thief of the list signer cannot add."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest

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


@pytest.mark.slow
def test_certificates_are_verified_by_change_only() -> None:
    """F860a: A blob that was checked costs no verification again, and covered keys cost none.

    A certificate for each key would make a blob larger by more than the half.
    """
    blob, name = _Blob(), "svc_key_" + 26 * "0"
    blob.keys = [_ROOT._replace(key_id=name)]
    blob.numbers = {f"{name}#1": 1}
    for number in range(1, 1_001):
        blob.add(f"{name}#1", 2, key_id=f"svc_key_{number:026}")
    keys = blob.made()
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
