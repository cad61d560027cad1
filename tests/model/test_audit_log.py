"""Which entries are meant, and where they are (decisions 3, audit log)."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.model.audit_log import Action, Entry, Filters, months

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
END = START + timedelta(days=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def entry(timestamp: datetime) -> Entry:
    return Entry(
        id="svc_evt_a",
        timestamp=timestamp,
        actor="admin@acme.svc",
        action=Action.KEY_SIGN,
        resource_id="svc_key_a",
        result="success",
        source_ip=None,
        request_id=None,
        details={},
        expires=0,
    )


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-11-21", "2026-11-21", ["2026-11"]),
        ("2026-11-01", "2026-11-30T23:59:59", ["2026-11"]),
        ("2026-11-30T23:59:59", "2026-12-01", ["2026-12", "2026-11"]),
        ("2025-12-31", "2026-03-31", ["2026-03", "2026-02", "2026-01", "2025-12"]),
        ("2026-12-01", "2026-11-30", []),
        ("2026-01-01", "2025-12-31", []),
    ],
)
def test_the_months_of_a_window(start: str, end: str, expected: list[str]) -> None:
    """Every month that the window touches, newest first, each once."""
    window = Filters(moment(start), moment(end))
    assert [each.pk for each in months("T", window)] == [f"T#{month}" for month in expected]


def test_ten_years_of_months() -> None:
    """No month is left out on the way, whatever its length."""
    window = Filters(moment("2016-01-31"), moment("2025-12-31"))
    assert len({each.pk for each in months("T", window)}) == 120


@pytest.mark.parametrize(
    ("timestamp", "meant"),
    [
        (START - timedelta(seconds=1), False),
        (START, True),
        (END, True),
        (END + timedelta(seconds=1), False),
    ],
)
def test_both_ends_are_meant(timestamp: datetime, meant: bool) -> None:
    """An entry at either end of the window is in it."""
    assert Filters(START, END).match(entry(timestamp)) is meant


@pytest.mark.parametrize("action", [None, Action.KEY_SIGN, Action.KEY_CREATE])
@pytest.mark.parametrize("actor", [None, "admin@acme.svc", "acme", ""])
@pytest.mark.parametrize("resource_id", [None, "svc_key_a", "svc_key_", ""])
def test_all_filters_must_match(
    action: Action | None, actor: str | None, resource_id: str | None
) -> None:
    """An entry is meant where every filter that is given is the whole of its field."""
    expected = (
        action is not Action.KEY_CREATE
        and actor in (None, "admin@acme.svc")
        and resource_id in (None, "svc_key_a")
    )
    assert Filters(START, END, action, actor, resource_id).match(entry(START)) is expected
