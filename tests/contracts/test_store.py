"""What every store promises (`shared.ports.store.Store`)."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.errors import PreconditionFailed
from shared.ports.store import (
    MOST_CHANGES,
    Address,
    Change,
    Check,
    Delete,
    Expect,
    Expectation,
    Increment,
    ItemFilter,
    ItemRow,
    Partition,
    Put,
    Store,
    Table,
    Value,
    VersionIs,
)

KEY = Address(Table.KEYS, "t1#api-keys", "svc_ak_1")
OTHER = Address(Table.REVOCATIONS, "t1#revocations", "svc_rev_1")
THIRD = Address(Table.AUDIT, "t1#2026-01", "svc_evt_1")
PARTITION = Partition(Table.REVOCATIONS, "t1#revoked#00")

ANYTHING, ABSENT, PRESENT = Expect.ANYTHING, Expect.ABSENT, Expect.PRESENT


def put(store: Store, address: Address, **item: Value) -> None:
    store.write(Put(address, item, ANYTHING))


def fill(store: Store, *sort_keys: str, partition: Partition = PARTITION) -> None:
    for start in range(0, len(sort_keys), MOST_CHANGES):
        store.write(
            *(
                Put(partition.address(sk), {"held": sk}, ANYTHING)
                for sk in sort_keys[start : start + MOST_CHANGES]
            )
        )


def sort_keys(store: Store, **bounds: Any) -> list[str]:
    return [entry.sk for entry in store.query(PARTITION, **bounds)]


def test_an_item_that_was_never_put_is_none(store: Store) -> None:
    """An unknown key is answered with None, on its own and among others."""
    assert store.get(KEY) is None
    assert store.get_many([KEY, OTHER]) == store.get_many([]) == {}


VALUES: dict[str, Value] = {
    "text": "plain",
    "empty": "",
    "scripts": "e\u0301 \u00e9 \U0001f642 \u202e \x00 \n",
    "zero": 0,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "yes": True,
    "no": False,
    "nothing": None,
    "bytes": b"\x00\xff",
    "no bytes": b"",
    "list": ["a", 1, True, None, b"b", [], {}],
    "map": {"a": {"b": [{"c": False}]}, "1": 1, "pk": "p"},
}


def typed(value: Value) -> object:
    """The value with every type spelled out: Python holds True and 1 equal."""
    if isinstance(value, list):
        return [typed(each) for each in value]
    if isinstance(value, dict):
        return {name: typed(each) for name, each in value.items()}
    return type(value), value


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was_put(store: Store, name: str) -> None:
    """Values keep their type and content, put or set, and wherever they are nested."""
    put(store, KEY, value=VALUES[name], nested=[{"value": VALUES[name]}])
    store.write(Increment(KEY, {"n": 1}, PRESENT, assign={"set": VALUES[name]}))
    item = store.get(KEY)
    assert item is not None
    assert typed(item["value"]) == typed(item["set"]) == typed(VALUES[name])
    assert typed(item["nested"]) == typed([{"value": VALUES[name]}])


RESERVED = ("name", "status", "count", "size", "ttl", "version", "key", "#a", ":b", "a.b", "a[0]")


def test_an_attribute_may_have_any_name(store: Store) -> None:
    """Words that an engine reserves are names like any other, in a put and in an increment."""
    numbers = dict.fromkeys(RESERVED, 1)
    store.write(Put(KEY, numbers, ABSENT))
    store.write(Increment(KEY, numbers, VersionIs(1)))
    assert store.get(KEY) == dict.fromkeys(RESERVED, 2)


def test_the_same_keys_in_another_table_are_another_item(store: Store) -> None:
    """Tables share nothing, and one write may change the same keys in each."""
    keys = [Address(table, "pk", "sk") for table in Table]
    store.write(*(Put(key, {"table": key.table.value}, ABSENT) for key in keys))
    assert store.get_many(keys) == {key: {"table": key.table.value} for key in keys}


@pytest.mark.parametrize("count", [100, 101, 230])
def test_get_many_answers_any_number_of_keys(store: Store, count: int) -> None:
    """F23: any number of keys, repeats and absent ones among them, gives every item there is."""
    names = [f"{number:03}" for number in range(count)]
    fill(store, *names)
    put(store, OTHER, other=True)
    wanted = [PARTITION.address(sk) for sk in names]
    absent = [PARTITION.address(f"absent {sk}") for sk in names[:5]]
    found = store.get_many(iter([*wanted, *absent, OTHER, *wanted[:3], OTHER]))
    assert found == {key: {"held": key.sk} for key in wanted} | {OTHER: {"other": True}}


def test_a_walk_goes_in_the_order_of_bytes(store: Store) -> None:
    """Sort keys come in the order of their UTF-8 bytes, or in its reverse."""
    ordered = sorted(
        ["#count", "-", "A", "Z", "a", "aa", "a\x00", "z", "\u00e9", "\uffee", "\U0001f642"],
        key=str.encode,
    )
    fill(store, *reversed(ordered))
    assert sort_keys(store) == ordered
    assert sort_keys(store, newest_first=True) == ordered[::-1]


def test_a_walk_brings_the_items(store: Store) -> None:
    """Each entry is a sort key with the item that is stored there."""
    fill(store, "a", "b")
    assert list(store.query(PARTITION)) == [
        ItemRow("a", {"held": "a"}),
        ItemRow("b", {"held": "b"}),
    ]


def test_a_walk_stays_in_its_partition(store: Store) -> None:
    """Neighbours by name, and the same partition of another table, are not seen."""
    fill(store, "mine")
    for pk in ("t1#revoked#0", "t1#revoked#000", "t1#revoked#01", "t1#revoked#00 "):
        fill(store, "theirs", partition=Partition(Table.REVOCATIONS, pk))
    fill(store, "theirs", partition=Partition(Table.KEYS, PARTITION.pk))
    assert sort_keys(store) == ["mine"]
    assert list(store.query(Partition(Table.AUDIT, PARTITION.pk))) == []


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 9])
def test_bounds_are_exclusive_and_the_limit_exact(
    store: Store, limit: int | None, newest_first: bool
) -> None:
    """Every pair of bounds, on, between and beyond the entries, gives just what lies between."""
    present = ["b", "d", "f", "h"]
    fill(store, *present)
    for after, before in itertools.product([None, "", "b", "c", "h", "i"], repeat=2):
        inside = [
            sk
            for sk in present
            if (after is None or sk > after) and (before is None or sk < before)
        ]
        expected = (inside[::-1] if newest_first else inside)[:limit]
        found = sort_keys(store, after=after, before=before, limit=limit, newest_first=newest_first)
        assert found == expected, (after, before)


def test_many_partitions_are_read_as_each_alone(store: Store) -> None:
    """F930a: `query_many` returns for each partition what `query` yields: none, some or the limit.

    Partitions may repeat, be empty, in other tables, and have any name.
    """
    names = ("", '"', "\\", "{a,b}", "NULL", "%s", "\u00e9", "\U0001f642")
    tables = itertools.cycle(Table)
    asked = [Partition(next(tables), f"p{name}") for name in names]
    for number, each in enumerate(asked):
        fill(store, *"bdfh"[: number % 5], partition=each)
    for after, before in ((None, None), ("", "h"), ("b", None), ("d", "b")):
        for limit in (None, 0, 1):
            bounds: dict[str, Any] = {"after": after, "before": before, "limit": limit}
            found = store.query_many(iter([*asked, *asked[:2]]), **bounds)
            assert found == {each: list(store.query(each, **bounds)) for each in asked}
    assert store.query_many([]) == {}


@pytest.mark.slow_on("dynamodb", "postgresql", "sqlite-file")
def test_a_walk_over_large_items_is_complete(store: Store) -> None:
    """More bytes than an engine's page come all, in order, once."""
    names = [f"{number:02}" for number in range(12)]
    for sk in names:
        put(store, PARTITION.address(sk), held="x" * 300_000)
    assert sort_keys(store) == names
    assert sort_keys(store, newest_first=True, after="01", before="10") == names[9:1:-1]
    assert sort_keys(store, limit=7) == names[:7]


def test_a_walk_over_many_items_is_complete(exact_store: Store) -> None:
    """F930b: More entries than an engine's page come all, in order, once."""
    names = [f"{number:05}" for number in range(2500)]
    fill(exact_store, *names)
    assert sort_keys(exact_store) == names
    none = PARTITION._replace(pk="none")
    for limit in (None, 999, 1000, 1001):
        found = exact_store.query_many([PARTITION, none], after="00009", limit=limit)
        assert [row.sk for row in found[PARTITION]] == names[10:][:limit]
        assert found[none] == []
    assert sort_keys(exact_store, newest_first=True, after="00009") == names[:9:-1]
    assert sort_keys(exact_store, limit=1001) == names[:1001]
    assert sort_keys(exact_store, before="02000", limit=2000) == names[:2000]


@pytest.mark.parametrize("after", [None, "", "a", "b", "d", "e"])
def test_a_column_has_one_attribute_of_each_item(store: Store, after: str | None) -> None:
    """The sort keys of a walk, with the attribute where there is one, and nothing else."""
    values: dict[str, Value] = {"b": "held by b", "c": None, "d": ["x", 1]}
    for sk, value in values.items():
        put(
            store,
            PARTITION.address(sk),
            **({} if value is None else {"wanted": value}),
            other="wanted",
        )
    fill(store, "bb", partition=Partition(Table.REVOCATIONS, "t1#revoked#01"))
    pages = store.column(PARTITION, "wanted", after=after)
    found = [(sk, page.values.get(sk)) for page in pages for sk in page.names]
    assert found == [(sk, value) for sk, value in values.items() if sk > (after or "")]


def test_a_column_of_many_items_is_complete(exact_store: Store) -> None:
    """More entries than an engine's page come all, in order, once; so do just as many."""
    names = [f"{number:05}" for number in range(2500)]
    fill(exact_store, *names)
    for after in ("00009", "01499"):
        pages = exact_store.column(PARTITION, "held", after=after)
        found = [(sk, page.values.get(sk)) for page in pages for sk in page.names]
        assert found == [(sk, sk) for sk in names[int(after) + 1 :]]


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_stays_is_seen_once_while_others_come_and_go(store: Store, newest_first: bool) -> None:
    """The store can be written between two steps, and an entry that stays is seen once."""
    names = [f"{number:02}" for number in range(0, 20, 2)]
    fill(store, *names)
    seen = []
    for entry in store.query(PARTITION, newest_first=newest_first):
        seen.append(entry.sk)
        if entry.sk in names:
            store.write(
                Delete(PARTITION.address(entry.sk), PRESENT),
                Put(PARTITION.address(f"{int(entry.sk) + 1:02}"), {}, ABSENT),
            )
    assert [sk for sk in seen if sk in names] == (names[::-1] if newest_first else names)


STATES: dict[str, dict[str, Value] | None] = {
    "absent": None,
    "at version 1": {"version": 1, "n": 5},
    "at version 2": {"version": 2, "n": 5, "text": "old", "kept": "yes"},
    "empty": {},
    "without a version": {"n": 5},
    "with a version of another type": {"version": "1", "n": 5},
}
HOLDS: dict[Expectation, set[str]] = {
    ANYTHING: set(STATES),
    ABSENT: {"absent"},
    PRESENT: set(STATES) - {"absent"},
    VersionIs(1): {"at version 1"},
    VersionIs(2): {"at version 2"},
}
ASSIGNED: dict[str, Value] = {"text": "new", "also": True}
MAKERS: dict[str, Callable[[Expectation], Change]] = {
    "put": lambda expect: Put(KEY, {"new": "item"}, expect),
    "delete": lambda expect: Delete(KEY, expect),
    "increment": lambda expect: Increment(KEY, {"n": 2, "m": -1}, expect),
    "increment and set": lambda expect: Increment(KEY, {"n": -2}, expect, assign=ASSIGNED),
    "check": lambda expect: Check(KEY, expect),
}


def outcome(kind: str, state: dict[str, Value] | None) -> dict[str, Value] | None:
    if kind == "put":
        return {"new": "item"}
    n = 5 if state else 0
    if kind == "increment":
        return (state or {}) | {"n": n + 2, "m": -1}
    if kind == "increment and set":
        return (state or {}) | {"n": n - 2} | ASSIGNED
    return None if kind == "delete" else state


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("expect", HOLDS, ids=str)
def test_a_change_happens_where_its_expectation_holds(
    store: Store, kind: str, expect: Expectation
) -> None:
    """F14: Each change, under each expectation, on each state: applied whole, or refused."""
    if kind == "check" and expect is ANYTHING:
        pytest.skip("a check requires a precondition")
    for name, state in STATES.items():
        store.write(Delete(KEY, ANYTHING) if state is None else Put(KEY, state, ANYTHING))
        if name in HOLDS[expect]:
            store.write(MAKERS[kind](expect))
            assert store.get(KEY) == outcome(kind, state), name
        else:
            with pytest.raises(PreconditionFailed) as caught:
                store.write(MAKERS[kind](expect))
            assert caught.value.lost == (KEY,), name
            assert store.get(KEY) == state, name


def test_a_version_is_an_integer(exact_store: Store) -> None:
    """True is not version 1, though Python holds them equal."""
    put(exact_store, KEY, version=True)
    with pytest.raises(PreconditionFailed):
        exact_store.write(Put(KEY, {}, VersionIs(1)))


@pytest.mark.parametrize("expect", [ABSENT, PRESENT, VersionIs(1)], ids=str)
def test_an_attribute_of_any_name_is_set(store: Store, expect: Expectation) -> None:
    """Words that an engine reserves can be set, whatever the increment expects."""
    if expect is not ABSENT:
        put(store, KEY, version=1)
    names = {name: 7 for name in RESERVED if name != "version"}
    store.write(Increment(KEY, {"version": 1}, expect, assign=names))
    assert store.get(KEY) == {"version": 1 if expect is ABSENT else 2} | names


def test_a_write_is_all_or_nothing_and_names_what_was_lost(store: Store) -> None:
    """F24, F25: one lost expectation undoes all, and every lost one is named, in order."""
    put(store, OTHER, version=1)
    counter = PARTITION.address("#count")
    put(store, counter, text="old")
    changes: list[Change] = [
        Put(KEY, {"n": 1}, ABSENT),
        Put(OTHER, {"version": 2}, VersionIs(7)),
        Increment(counter, {"count": 1}, ANYTHING, assign={"text": "new"}),
        Check(THIRD, PRESENT),
    ]
    with pytest.raises(PreconditionFailed) as caught:
        store.write(*changes)
    assert caught.value.lost == (OTHER, THIRD)
    keys = [change.address for change in changes]
    assert store.get_many(keys) == {OTHER: {"version": 1}, counter: {"text": "old"}}


def test_a_write_spans_tables_and_kinds(store: Store) -> None:
    """One write puts, deletes, counts and checks, wherever the items are."""
    put(store, OTHER, version=1)
    put(store, THIRD, here=True)
    counter = PARTITION.address("#count")
    store.write(
        Put(KEY, {"n": 1}, ABSENT),
        Delete(OTHER, VersionIs(1)),
        Increment(counter, {"count": 1}, ANYTHING),
        Check(THIRD, PRESENT),
    )
    keys = [KEY, OTHER, counter, THIRD]
    assert store.get_many(keys) == {KEY: {"n": 1}, counter: {"count": 1}, THIRD: {"here": True}}


@pytest.mark.slow_on("dynamodb")
def test_the_largest_write(store: Store) -> None:
    """A hundred changes are one write."""
    names = [f"{number:03}" for number in range(MOST_CHANGES)]
    store.write(*(Put(PARTITION.address(sk), {}, ABSENT) for sk in names))
    assert sort_keys(store) == names
    with pytest.raises(PreconditionFailed) as caught:
        store.write(*(Delete(PARTITION.address(sk), PRESENT) for sk in [*names[:-1], "100"]))
    assert caught.value.lost == (PARTITION.address("100"),)
    assert sort_keys(store) == names


REFUSED: dict[str, list[Change]] = {
    "no change": [],
    "too many": [
        Put(PARTITION.address(str(number)), {}, ANYTHING) for number in range(MOST_CHANGES + 1)
    ],
    "one item twice": [Put(KEY, {}, ANYTHING), Check(KEY, PRESENT)],
    "a check of nothing": [Put(OTHER, {}, ANYTHING), Check(KEY, ANYTHING)],
    "an item with its key": [Put(KEY, {"pk": "p"}, ANYTHING)],
    "an item with its sort key": [Put(KEY, {"sk": "p"}, ANYTHING)],
    "an increment of nothing": [Increment(KEY, {}, ANYTHING)],
    "an increment of the key": [Increment(KEY, {"sk": 1}, ANYTHING)],
    "an increment that sets the key": [Increment(KEY, {"n": 1}, ANYTHING, assign={"pk": "p"})],
    "an increment that sets what it counts": [
        Increment(KEY, {"n": 1, "m": 1}, ANYTHING, assign={"text": "t", "m": 2})
    ],
    "an increment that only sets": [Increment(KEY, {}, ANYTHING, assign={"text": "t"})],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_write_that_no_store_could_apply_is_a_value_error(store: Store, name: str) -> None:
    """A fault of the caller's is refused alike, and changes nothing."""
    with pytest.raises(ValueError, match=r"write|item|check|increment"):
        store.write(*REFUSED[name])
    assert store.get_many([KEY, OTHER]) == {}


@pytest.mark.parametrize(
    "value",
    [1.5, (1,), {1}, [1.5], {"a": [(1,)]}, {1: 2}, object()],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_another_type_is_a_type_error(store: Store, value: Any) -> None:
    """What would come back as something else is not taken."""
    for change in (
        Put(KEY, {"value": value}, ANYTHING),
        Increment(KEY, {"n": 1}, ANYTHING, assign={"value": value}),
    ):
        with pytest.raises(TypeError):
            store.write(change)
    assert store.get(KEY) is None


def test_of_many_creations_at_once_one_takes_effect(exact_store: Store) -> None:
    """F30: threads that create one item at once: one succeeds, the others are told so."""

    def create(number: int) -> int:
        try:
            exact_store.write(Put(KEY, {"by": number}, ABSENT), Put(OTHER, {}, ANYTHING))
        except PreconditionFailed:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(24))) == 1


def test_increments_at_once_all_count(exact_store: Store) -> None:
    """F31: no increment of many threads is lost, and contention is no error."""
    with ThreadPoolExecutor(8) as pool:
        writes = [
            pool.submit(exact_store.write, Increment(KEY, {"n": 1}, ANYTHING)) for _ in range(40)
        ]
    for write in writes:
        write.result()
    assert exact_store.get(KEY) == {"n": 40}


def test_of_two_that_exclude_each_other_one_takes_effect(exact_store: Store) -> None:
    """F1480a: An item whose absence a write expects is not created beside it."""
    pairs = [[Address(KEY.table, KEY.pk, f"{number}{end}") for end in "ab"] for number in range(40)]

    def create(mine: Address, other: Address) -> bool:
        try:
            exact_store.write(Put(mine, {}, ANYTHING), Check(other, ABSENT))
        except PreconditionFailed:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for first, second in pairs:
            both = [pool.submit(create, first, second), pool.submit(create, second, first)]
            assert sum(each.result() for each in both) <= 1


AUDIT = Partition(Table.AUDIT, "t1#2026-01")
ACTORS = ("a@t.svc", "b@t.svc", "")
# Of four blocks of time and a fifth that is far away, as audit identifiers are.
IDS = [f"svc_evt_01m7yz{block}{number:018}" for block in "0012z" for number in range(7)]


def entry_fields(number: int) -> dict[str, Value]:
    """An entry; some lack an attribute, have another type there, or never expire."""
    item: dict[str, Value] = {
        "action": ("key.sign", "key.create")[number % 2],
        "actor": ACTORS[number % 3],
        "resource_id": ("svc_rev_a", "svc_key_a", "svc_key_b")[number % 3],
        "details": {"warrant_id": f"svc_wrt_{number % 4}", "actor": "b@t.svc"},
    }
    if number % 5:
        item["actor_key_id"] = "svc_ak_a" if number % 5 == 1 else number
    if number % 7:
        item["expires"] = 86_400 * 20_000 + number
    return item


WHERE = [
    ItemFilter(),
    ItemFilter({"action": "key.sign"}),
    ItemFilter({"actor": "b@t.svc"}),
    ItemFilter({"actor": ""}),
    ItemFilter({"actor": "c@t.svc"}),
    ItemFilter({"actor_key_id": "svc_ak_a"}),
    ItemFilter({"details.warrant_id": "svc_wrt_1"}),
    ItemFilter({"action": "key.sign", "actor": "a@t.svc"}),
    ItemFilter({"actor": "a@t.svc", "action": "key.sign", "actor_key_id": "svc_ak_a"}),
    ItemFilter({"actor_key_id": "svc_ak_a", "actor": "b@t.svc"}),
    ItemFilter({"resource_id": "svc_rev_a", "actor": "a@t.svc"}),
    ItemFilter({"resource_id": "svc_key_a", "action": "key.sign"}),
    ItemFilter(
        {"resource_id": "svc_key_a", "details.warrant_id": "svc_wrt_1", "action": "key.sign"}
    ),
    ItemFilter(
        {
            "actor": "a@t.svc",
            "action": "key.sign",
            "actor_key_id": "svc_ak_a",
            "resource_id": "svc_key_a",
        }
    ),
    ItemFilter({"action": "key.sign", "actor": "a@t.svc", "details.warrant_id": "svc_wrt_0"}),
    ItemFilter(alive_at=86_400 * 20_000 + 12),
    ItemFilter(alive_at=0),
    ItemFilter({"actor": "a@t.svc"}, alive_at=86_400 * 20_000 + 12),
    ItemFilter({"action": "key.create", "actor": "b@t.svc"}, alive_at=86_400 * 20_000 + 20),
]
BOUNDS: list[dict[str, str]] = [
    {},
    {"after": IDS[3]},
    {"before": IDS[-3]},
    {"after": IDS[0], "before": IDS[-1]},
    {"after": IDS[8], "before": IDS[12]},
    {"after": "svc_evt_01m7yz1", "before": "svc_evt_01m7yz2"},
    {"after": "svc_evt_01m7yz1", "before": "svc_evt_01m7z"},
    {"after": IDS[9], "before": IDS[9]},
    {"after": IDS[9], "before": IDS[8]},
    {"after": "svc_evt_7"},
]


@pytest.mark.slow_on("dynamodb")
def test_entries_are_found_and_counted_by_what_they_say(store: Store) -> None:
    """For any filter and bounds, `query` gives those that match and `count` their number."""
    ids = list(dict.fromkeys(IDS))
    entries = {sk: entry_fields(number) for number, sk in enumerate(ids)}
    store.write(*(Put(AUDIT.address(sk), item, ABSENT) for sk, item in entries.items()))
    store.write(Put(Address(Table.AUDIT, "t2#2026-01", ids[0]), entry_fields(1), ABSENT))
    # Each way to walk comes with each filter, and with each bound: not with all pairs of them.
    ways = list(itertools.product([False, True], [None, 0, 1, 3]))
    for (w, where), (b, bounds) in itertools.product(enumerate(WHERE), enumerate(BOUNDS)):
        newest_first, limit = ways[(w + b) % len(ways)]
        low, high = bounds.get("after", ""), bounds.get("before", "~")
        expected = [sk for sk in ids if low < sk < high and where.holds(entries[sk])]
        found = store.query(AUDIT, **bounds, where=where, newest_first=newest_first, limit=limit)
        walk = expected[::-1] if newest_first else expected
        assert [(e.sk, e.item) for e in found] == [(sk, entries[sk]) for sk in walk[:limit]]
        assert store.count(AUDIT, **bounds, where=where) == len(expected)


def test_what_is_changed_is_found_by_what_it_says_then(store: Store) -> None:
    """An entry that is replaced, incremented or deleted counts as it is now."""
    first, second, third = (AUDIT.address(sk) for sk in IDS[:3])
    store.write(*(Put(key, entry_fields(1), ABSENT) for key in (first, second, third)))
    store.write(Put(first, entry_fields(2), PRESENT), Delete(second, PRESENT))
    store.write(Increment(third, {"n": 1}, PRESENT, {"actor": "c@t.svc"}))
    counts = [store.count(AUDIT, where=ItemFilter({"actor": f"{each}@t.svc"})) for each in "abc"]
    assert counts == [0, 0, 1]
    assert store.count(AUDIT, where=ItemFilter({"actor": entry_fields(2)["actor"]})) == 1  # type: ignore[dict-item]
    assert store.count(AUDIT) == 2
    store.write(Delete(first, PRESENT), Delete(third, PRESENT))
    assert store.count(AUDIT) == store.count(AUDIT, where=ItemFilter({"actor": "c@t.svc"})) == 0


def test_other_tables_are_counted_too(store: Store) -> None:
    """Counting and filters are for any partition, with whatever sort keys."""
    fill(store, "a", "b", "c", "d")
    assert store.count(PARTITION) == 4
    assert store.count(PARTITION, after="a", before="d") == 2
    assert store.count(PARTITION, where=ItemFilter({"held": "c"})) == 1
    assert [e.sk for e in store.query(PARTITION, where=ItemFilter({"held": "c"}))] == ["c"]


@pytest.mark.slow_on("dynamodb", "postgresql", "sqlite-file")
def test_a_count_has_no_limit(store: Store) -> None:
    """More entries than fit into one answer are counted to the end."""
    ids = [f"svc_evt_01m7yz{number:020}" for number in range(1100)]
    for start in range(0, len(ids), MOST_CHANGES):
        several = ids[start : start + MOST_CHANGES]
        store.write(*(Put(AUDIT.address(sk), {"actor": "x" * 2000}, ABSENT) for sk in several))
    assert store.count(AUDIT) == 1100
    assert store.count(AUDIT, where=ItemFilter({"actor": "x" * 2000}), after=ids[99]) == 1000


@pytest.mark.slow_on("dynamodb")
def test_everything_of_a_table_is_each_item_once(store: Store) -> None:
    """F401a: All items of a table are read, each once, whatever its partition, and no others."""
    partitions = [Partition(Table.REVOCATIONS, f"t{number}#revoked#00") for number in range(3)]
    names = [f"svc_wrt_{number:04d}" for number in range(1100)]
    for partition in partitions:
        fill(store, *names[: 1100 if partition is partitions[0] else 3], partition=partition)
    put(store, KEY, held="elsewhere")
    found = list(store.everything(Table.REVOCATIONS))
    wanted = {partitions[0].address(sk) for sk in names}
    wanted |= {partition.address(sk) for partition in partitions[1:] for sk in names[:3]}
    assert len(found) == len(wanted)
    assert {address for address, _ in found} == wanted
    assert all(item == {"held": address.sk} for address, item in found)
    assert list(store.everything(Table.AUDIT)) == []
