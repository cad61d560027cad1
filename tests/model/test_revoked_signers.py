"""The marker that revokes a version of a key."""

from datetime import UTC, datetime, timedelta

from shared.model import revocations as model
from shared.model.revocations import Marker
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
