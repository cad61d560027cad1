"""What a signing key may become, and what its revocation reaches (KEY-6, KEY-9)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.model import signing_keys as model
from shared.model.signing_keys import KeyStatus, Signer, SigningKey
from shared.model.warrants import left_behind
from tests.model.signing_key import KEY, NOW

LATER = NOW + timedelta(hours=1)


def test_the_transitions() -> None:
    """They are those of the contract, and nothing leads out of revoked."""
    arrows = {
        (str(start), str(end)) for end, starts in model.TRANSITIONS.items() for start in starts
    }
    assert arrows == {
        *(("active", "rotated"), ("active", "suspended"), ("active", "revoked")),
        *(("suspended", "active"), ("suspended", "revoked"), ("rotated", "revoked")),
    }


@pytest.mark.parametrize(
    "changed",
    [
        KEY.suspended(LATER),
        KEY.enabled(),
        KEY.revoked(LATER, reason="r"),
        KEY.rotated(LATER, public_key="new", sealed_seed=b"other"),
    ],
)
def test_every_change_moves_the_version_on(changed: SigningKey) -> None:
    """So that whoever decided on the record before loses; and nothing of its identity changes."""
    assert changed.version == KEY.version + 1
    assert (changed.id, changed.parent_id, changed.created_at) == ("svc_key_a", "svc_key_p", NOW)
    assert SigningKey.from_item(changed.to_item()) == changed


def test_a_superseded_version() -> None:
    """It is a record of its own without a seed, and knows the key that it was."""
    rotated = KEY.rotated(LATER, public_key="new", sealed_seed=b"other")
    old = KEY.superseded(LATER, record_id="svc_key_b")
    assert (old.status, old.sealed_seed, old.public_key) == (KeyStatus.ROTATED, None, "old")
    assert (old.current_id, old.key_version, old.rotated_at) == (KEY.id, 1, LATER)
    assert (rotated.key_version, rotated.public_key, rotated.sealed_seed) == (2, "new", b"other")
    again = rotated.superseded(LATER + timedelta(hours=1), record_id="svc_key_c")
    assert (again.created_at, again.key_version) == (LATER, 2)
    assert "sealed_seed" not in old.to_item()


def test_a_seed_is_not_in_the_repr() -> None:
    """F17: a record that is printed shows no seed, sealed or not."""
    assert "sealed" not in repr(KEY)


@pytest.mark.parametrize(
    ("seconds", "expired"), [(-1, False), (0, True), (1, True)], ids=["before", "at", "after"]
)
def test_expiry(seconds: int, expired: bool) -> None:
    """A key has expired from the moment of `expires_at` on; without one it never does."""
    key = replace(KEY, expires_at=NOW)
    assert key.has_expired(NOW + timedelta(seconds=seconds)) is expired
    assert not KEY.has_expired(datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize("signer", [Signer("svc_key_a", None), Signer("svc_key_a", 12)])
def test_a_signer_as_text(signer: Signer) -> None:
    """A signer is read back from its text as it was."""
    assert Signer.parse(str(signer)) == signer


def test_the_signer_of_a_record() -> None:
    """A key is revoked with every version of it; a superseded version by itself."""
    assert KEY.signer == Signer("svc_key_a", None)
    assert KEY.superseded(NOW, record_id="svc_key_b").signer == Signer("svc_key_a", 1)


@pytest.mark.parametrize(
    ("ends_at", "gone"),
    [
        (None, False),
        (NOW, False),
        (NOW - timedelta(hours=1), False),
        (NOW - timedelta(hours=1, seconds=1), True),
        (datetime.min.replace(tzinfo=UTC), True),
        (datetime.max.replace(tzinfo=UTC), False),
    ],
    ids=str,
)
def test_warrants_that_no_list_need_name(ends_at: datetime | None, gone: bool) -> None:
    """Those known to have ended more than one lifetime ago, at any time of the calendar."""
    assert left_behind(ends_at, NOW, ttl=timedelta(hours=1)) is gone
