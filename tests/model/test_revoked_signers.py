"""Revoked signers: what is counted, and what revokes a warrant."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import Corrupt
from shared.model import revocations as model
from shared.model.revocations import Count, Marker
from shared.model.signing_keys import Signer

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEY, FIRST = Signer("svc_key_a", None), Signer("svc_key_a", 1)


def test_what_revokes_a_version() -> None:
    """The key or the version itself, whichever came first; no other key or version."""
    early, late = Marker(NOW, "early"), Marker(NOW + timedelta(seconds=1), "late")
    assert model.revoker_of({KEY: late, FIRST: early}, FIRST) == early
    assert model.revoker_of({KEY: early, FIRST: late}, FIRST) == early
    assert model.revoker_of({KEY: late}, FIRST) == late
    assert model.revoker_of({FIRST: late}, Signer("svc_key_a", 11)) is None
    assert model.revoker_of({KEY: late}, Signer("svc_key_", 1)) is None
    assert model.revoker_of({FIRST: late}, KEY) is None


def test_versions_are_counted_apart() -> None:
    """A check looks for the marker of a version only if any version is revoked."""
    assert Count.counting([KEY, FIRST, Signer("svc_key_b", 2)]) == Count(3, 2, 1)
    assert Count.of(None) == Count(0, 0, 0)


def test_names_are_no_count() -> None:
    """A count in another form is refused."""
    with pytest.raises(Corrupt):
        Count.from_item({"signers": ["svc_key_a"], "version": 1})
