"""Superseded versions of a signing key, and warrants past retention."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.model.signing_keys import KeyStatus
from shared.model.warrants import is_past_retention
from tests.model.signing_key import KEY, NOW

LATER = NOW + timedelta(hours=1)


def test_a_superseded_version() -> None:
    """It is a record of its own without a seed, and knows the key that it was."""
    rotated = KEY.rotate(LATER, public_key="new", sealed_seed=b"other")
    old = KEY.supersede(LATER, record_id="svc_key_b")
    assert (old.status, old.sealed_seed, old.public_key) == (KeyStatus.ROTATED, None, "old")
    assert (old.current_id, old.key_version, old.rotated_at) == (KEY.id, 1, LATER)
    assert (rotated.key_version, rotated.public_key, rotated.sealed_seed) == (2, "new", b"other")
    again = rotated.supersede(LATER + timedelta(hours=1), record_id="svc_key_c")
    assert (again.created_at, again.key_version) == (LATER, 2)
    assert "sealed_seed" not in old.to_item()


def test_a_seed_is_not_in_the_repr() -> None:
    """F17: a record that is printed shows no seed, sealed or not."""
    assert "sealed" not in repr(KEY)


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
    assert is_past_retention(ends_at, NOW, ttl=timedelta(hours=1)) is gone
