"""docs/data-model.md names every item that the code stores, and no other."""

import re
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest

from tests import data_model
from tests.data_model import CLAUSE, TABLES, Seen, kinds, section
from tests.kit.worlds import Clock, close, embedded


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return data_model.drive(tmp_path_factory.mktemp("driven"))


def test_the_clause_names_the_operations_with_protected_effects(seen: Seen) -> None:
    """APPROVAL-1, F2110a: The clause names all operations with a protected effect."""
    assert CLAUSE.read_text(encoding="utf-8") == data_model.clause(seen), "run `make written`"


def test_each_item_is_on_the_page_once(seen: Seen) -> None:
    """Each stored item is of one kind, with its fields; each kind and each field is stored."""
    known = [kind for title in TABLES for kind in kinds(title)]
    names: dict[str, set[str]] = {kind.what: set() for kind in known}
    found = set()
    for address, item in seen.items:
        (kind,) = [each for each in known if each.is_at(address)]
        assert kind.has(item), (address, item)
        found.add(kind.what)
        names[kind.what] |= {*item}
    assert found == {kind.what for kind in known}
    for kind in known:
        for name in kind.names:
            assert any(map(name.fullmatch, names[kind.what])), (kind.what, name)


def test_each_blob_is_on_the_page_once(seen: Seen) -> None:
    """Each stored blob has one of the names on the page, and each name is stored."""
    patterns = [data_model.pattern(name) for name, *_ in section(data_model.BLOBS)]
    found = [[each for each in patterns if each.fullmatch(blob)] for blob in seen.blobs]
    assert {len(each) for each in found} == {1}
    assert {each for (each,) in found} == {*patterns}


def test_the_tables_of_sqlite_are_on_the_page(tmp_path: Path, clock: Clock) -> None:
    """The page has each table of SQLite, with its columns."""
    close(embedded(tmp_path, clock, store=str(tmp_path / "svc.db")))
    said = {}
    for _, table, columns, _ in section("SQLite tables"):
        said[table.strip("`")] = re.findall(r"`(\w+)`", columns)
    stored: dict[str, list[str]] = {}
    with sqlite3.connect(tmp_path / "svc.db") as file:
        for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            names = file.execute("SELECT name FROM pragma_table_info(?)", (table,))
            stored[table] = [name for (name,) in names]
    file.close()
    assert said == stored


def test_no_key_and_no_revocation_expires() -> None:
    """F371d: Only outcomes, notices, tickets, sessions, approvals, manifests and lists expire.

    So a store that removes what has expired removes no key and no revocation.
    """
    ending = {
        record.__name__
        for table in ("keys", "revocations")
        for kind in kinds(f"Table `{table}`")
        for record in kind.records
        if "expires" in {each.name for each in fields(record)}  # type: ignore[arg-type]
    }
    sessions = {"Approval", "IssuerKeys", "ManifestPart", "UnrevokeManifest"}
    sessions |= {"SessionCredential", "SessionRecord"}
    assert ending == {"ExpiryNotice", "IdempotencyRecord", "SrlVersionRecord", "Ticket"} | sessions
