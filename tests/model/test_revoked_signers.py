"""The marker that revokes a version of a key."""

from datetime import UTC, datetime, timedelta

from shared.model import revocations as model
from shared.model.revocations import SignerRevocation
from shared.model.signing_keys import WarrantSigner

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEY, FIRST = WarrantSigner("svc_key_a", None), WarrantSigner("svc_key_a", 1)


def test_what_revokes_a_version() -> None:
    """The key or the version itself, whichever came first; no other key or version."""
    early, late = (
        SignerRevocation(NOW, "early"),
        SignerRevocation(NOW + timedelta(seconds=1), "late"),
    )
    assert model.revoker_of({KEY: late, FIRST: early}, FIRST) == early
    assert model.revoker_of({KEY: early, FIRST: late}, FIRST) == early
    assert model.revoker_of({KEY: late}, FIRST) == late
    assert model.revoker_of({FIRST: late}, WarrantSigner("svc_key_a", 11)) is None
    assert model.revoker_of({KEY: late}, WarrantSigner("svc_key_", 1)) is None
    assert model.revoker_of({FIRST: late}, KEY) is None
