"""Records to items and back (shared.model.records)."""

import importlib
import pkgutil
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functions
import shared.model
from shared.errors import DataCorrupt
from shared.model import records
from shared.model.api_keys import Credential
from shared.model.callers import Scope
from shared.model.records import Record
from shared.model.revocations import RevokedWarrant


def kinds() -> list[type[Record]]:
    """Every record of the model and of the capabilities."""
    modules = [
        importlib.import_module(each.name)
        for package in (shared.model, functions)
        for each in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
        if not each.name.endswith(("handler", "routes"))
    ]
    found = [value for module in modules for value in vars(module).values()]
    classes = [each for each in found if isinstance(each, type) and issubclass(each, Record)]
    return sorted(set(classes) - {Record}, key=lambda each: each.__qualname__)


KINDS = kinds()
EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__qualname__)

MOMENTS = st.datetimes(
    datetime(2000, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)  # noqa: DTZ001
).map(lambda moment: moment.replace(microsecond=0))  # fmt: skip
PLAIN: dict[Any, Any] = {
    str: st.text(),
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    bytes: st.binary(),
    datetime: MOMENTS,
    NoneType: st.none(),
}
# Fields that are not stored if they are the default, and that default.
SPARSE: dict[tuple[str, str], Any] = {
    ("Approval", "record_version"): 0,
    ("Approval", "decided_by_epoch"): 0,
    ("Approval", "requested_by_epoch"): 0,
    ("AuditSigner", "precedes_log"): False,
    ("TrustHead", "floor"): 0,
    ("Authorizer", "features"): (),
    ("Authorizer", "type"): "",
    ("Authorizer", "program_version"): "",
    ("Authorizer", "public_key"): "",
    ("Authorizer", "metadata"): {},
    ("Authorizer", "relay"): "",
    ("Authorizer", "chain"): b"",
    ("Authorizer", "fail_open"): False,
    ("Authorizer", "refused"): {},
    ("Authorizer", "equivocation"): False,
    ("Authorizer", "key_id"): "",
    ("Authorizer", "verified_key"): b"",
    ("Authorizer", "number"): 0,
    ("Authorizer", "trust"): 0,
    ("Authorizer", "advances"): b"",
    ("SignerOutboxMark", "changes"): (),
    ("StoredEntry", "changes"): (),
    ("DirectoryEntry", "removal_began"): False,
    ("LogHead", "late"): 0,
    ("Webhook", "deferred"): {},
}
# One stored value of each type; a moment and an enumeration are text.
SAMPLES: list[Any] = [None, "x", 1, 0, True, False, b"x", 1.5, [], ["x"], [1], {}, {"x": 1}]


def values(declared: Any) -> st.SearchStrategy[Any]:
    """The values that a field of this type may have."""
    if declared in PLAIN:
        return PLAIN[declared]  # type: ignore[no-any-return]
    if get_origin(declared) is tuple:
        return st.lists(values(get_args(declared)[0]), max_size=3).map(tuple)
    if get_origin(declared) is dict:
        return st.dictionaries(st.text(), st.text() | st.integers(0, 9), max_size=3)
    if get_args(declared):
        return st.one_of(*map(values, get_args(declared)))
    return st.sampled_from(list(declared))


def instances(kind: type[Record]) -> st.SearchStrategy[Record]:
    """Any record of this kind."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values(hints[each.name]) for each in members(kind)})


def members(kind: type[Record]) -> tuple[Field[Any], ...]:
    return fields(kind)  # type: ignore[arg-type]


def fits(declared: Any, value: Any) -> bool:
    """Whether a stored value is one that a field of this type may have."""
    if declared is datetime or (isinstance(declared, type) and issubclass(declared, StrEnum)):
        return False  # no sample is
    if get_origin(declared) is tuple:
        inner = get_args(declared)[0]
        return type(value) is list and all(fits(inner, each) for each in value)
    if get_origin(declared) is dict:
        return type(value) is dict
    if get_args(declared):
        return any(fits(each, value) for each in get_args(declared))
    return type(value) is declared


def test_there_are_records() -> None:
    """The search for records finds those that it must not miss."""
    names = {kind.__name__ for kind in KINDS}
    assert {"ApiKey", "Credential", "Usage", "Revocation", "RevokedWarrant", "SrlHead"} <= names
    assert {"TenantSettings", "DirectoryEntry", "SrlSigner", "ServiceAccount"} <= names


@EACH
@settings(max_examples=10)
@given(data=st.data())
def test_a_record_survives_the_store(kind: type[Record], data: st.DataObject) -> None:
    """Its item, or that of a later release with more attributes, turns back into the record."""
    record = data.draw(instances(kind))
    item = record.to_item()
    assert kind.from_item(item) == record == kind.from_item({**item, "of a later release": 1})
    assert None not in item.values()


@EACH
@settings(max_examples=3)
@given(data=st.data())
def test_a_missing_field_is_corrupt(kind: type[Record], data: st.DataObject) -> None:
    """F10: an item without a field that the record needs is never read as a record."""
    record = data.draw(instances(kind))
    for name in [each.name for each in members(kind)]:
        item = {other: value for other, value in record.to_item().items() if other != name}
        default = SPARSE.get((kind.__name__, name))
        if NoneType in get_args(get_type_hints(kind)[name]) or default is not None:
            assert getattr(kind.from_item(item), name) == default
            continue
        with pytest.raises(DataCorrupt, match=f"{kind.__name__}.{name}"):
            kind.from_item(item)


@EACH
@settings(max_examples=3)
@given(data=st.data())
def test_a_field_of_another_type_is_corrupt(kind: type[Record], data: st.DataObject) -> None:
    """F10: a field of another type is never taken for its own: no number for a flag, no text."""
    record = data.draw(instances(kind))
    hints = get_type_hints(kind)
    for name in [each.name for each in members(kind)]:
        for sample in SAMPLES:
            if sample is None or fits(hints[name], sample):
                continue
            with pytest.raises(DataCorrupt, match=f"{kind.__name__}.{name}"):
                kind.from_item(record.to_item() | {name: sample})


def test_the_message_repeats_no_value() -> None:
    """What is told of a malformed item names the field alone."""
    credential = Credential("d", "t", "k", "i", (Scope.ADMIN,), "n")
    with pytest.raises(DataCorrupt) as caught:
        Credential.from_item({**credential.to_item(), "scopes": ["secret"]})
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.slow
@given(MOMENTS, st.integers(0, 999_999))
def test_parts_of_a_second_are_not_kept(moment: datetime, microseconds: int) -> None:
    """A record that was stored has whole seconds, as every answer has."""
    exact = RevokedWarrant(moment + timedelta(microseconds=microseconds))
    assert RevokedWarrant.from_item(exact.to_item()) == RevokedWarrant(moment)


@pytest.mark.parametrize("value", [None, "1", True, 1.0, [1], b"1"])
def test_a_counter_is_an_integer(value: Any) -> None:
    """F10: a counter that is missing or of another type is `DataCorrupt`, never zero."""
    assert records.integer({"count": 7}, "count") == 7
    with pytest.raises(DataCorrupt, match="count"):
        records.integer({"count": value}, "count")
    with pytest.raises(DataCorrupt, match="count"):
        records.integer({}, "count")
