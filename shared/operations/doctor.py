"""What is wrong with a deployment or data folder, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from shared.errors import Corrupt, InvalidSrl, RescindError
from shared.model import seeds, signing_keys
from shared.model.items import Key, Table
from shared.model.seeds import Purpose
from shared.model.signing_keys import SigningKey, Status
from shared.model.srl import Head
from shared.model.srl_keys import SrlKey, signers
from shared.model.srl_schedule import Turn
from shared.model.srl_verification import verify
from shared.model.tenants import Listing
from shared.operations import (
    publication,
    recovery,
    seals,
    srl_changes,
    srl_keys,
    srl_marks,
    tenants,
)
from shared.ports import Ports

_RESTORE: Final = "restore the data (docs/deploy.md, restore), then: recover"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: with whom, what it is, and the way out."""

    subject: str
    problem: str
    remedy: str


def examine(ports: Ports) -> Iterator[Finding]:
    """What is wrong, place by place and tenant by tenant; nothing where all is well.

    Changes nothing. A check that cannot be made is a finding too.
    """
    broken = list(_places(ports))
    yield from broken
    if broken:
        return
    for listing in tenants.listing(ports):
        yield from _tenant(ports, listing)


def _places(ports: Ports) -> Iterator[Finding]:
    attempts: dict[str, Callable[[], object]] = {
        "SVC_STORE": lambda: ports.store.get_many(Key(table, "none") for table in Table),
        "SVC_BLOBS": lambda: ports.blobs.get("srl/none"),
        "SVC_KEYS": lambda: _seal_and_open(ports),
    }
    for name, reach in attempts.items():
        try:
            reach()
        except RescindError as error:
            yield Finding(
                name,
                f"cannot be used: {_cause(error)}",
                "see that it is there, that its name is right, and that this user may use it",
            )


def _tenant(ports: Ports, listing: Listing) -> Iterator[Finding]:
    found: list[Finding] = []
    examined = None
    try:
        tenants.settings(ports, listing.tenant_id)
        # A list that was published meanwhile explains what seemed amiss with the one before it.
        while (head := publication.current(ports, listing.tenant_id)) != examined:
            found, examined = list(_findings(ports, listing, head)), head
    except RescindError as error:
        yield Finding(listing.handle, f"its records cannot be read: {error}", _RESTORE)
        return
    yield from found


def _findings(ports: Ports, listing: Listing, head: Head) -> Iterator[Finding]:
    checks: tuple[Callable[[Ports, str, Head], Iterator[tuple[str, str]]], ...] = (
        _list_is_valid,
        _list_is_newest,
        _list_is_on_time,
        _signer_can_sign,
        _keys_can_sign,
    )
    for check in checks:
        try:
            for problem, remedy in check(ports, listing.tenant_id, head):
                yield Finding(listing.handle, problem, f"{remedy} {listing.handle}".strip())
        except RescindError as error:
            yield Finding(listing.handle, f"{error}", f"{_RESTORE} {listing.handle}")


def _list_is_valid(ports: Ports, tenant_id: str, head: Head) -> Iterator[tuple[str, str]]:
    item = ports.store.get(signers(tenant_id).key(head.key_id))
    if item is None:
        yield "the key that signed its list has no record", _RESTORE
        return
    signer = SrlKey.from_item(item)
    try:
        verify(publication.read(ports, head), public_key=signer.public_bytes, now=ports.now())
    except InvalidSrl as error:
        clocks = "see that the clocks are right and " if head.is_ahead(ports.now()) else "see "
        yield f"its list is not valid: {error}", f"{clocks}that the schedule runs, or run: recover"


def _list_is_newest(ports: Ports, tenant_id: str, head: Head) -> Iterator[tuple[str, str]]:
    if recovery.newest_version(ports, tenant_id) > head.version:
        yield (
            "a newer list is stored than the one in force",
            "harmless where a publication was stopped; after a restore, or in doubt, run: recover",
        )


def _list_is_on_time(ports: Ports, tenant_id: str, head: Head) -> Iterator[tuple[str, str]]:
    turn = Turn.after(head, tenant_id)
    if ports.store.get(turn.key) is None:
        yield "the schedule does not know when its list is due", "run: recover"
    if turn.is_late(ports.now()):
        yield "its list is late", "see that the schedule runs; its log says what failed for"
    # Counted before the marks are read: whatever is counted has been marked.
    has_changed = srl_changes.counted(ports, tenant_id).changes != head.changes
    if has_changed and not srl_marks.marks_of(ports, tenant_id):
        yield "changes since its list are not marked for the schedule", "run: recover"


def _signer_can_sign(ports: Ports, tenant_id: str, _head: Head) -> Iterator[tuple[str, str]]:
    signer = srl_keys.current(ports, tenant_id)
    yield from _seal(ports, signer, "list signer")


def _keys_can_sign(ports: Ports, tenant_id: str, _head: Head) -> Iterator[tuple[str, str]]:
    for entry in ports.store.query(signing_keys.keys(tenant_id)):
        key = SigningKey.from_item(entry.item)
        if key.sealed_seed is None or key.status is Status.REVOKED:
            continue
        # One is enough to say so: the remedy is for all.
        if problem := next(_seal(ports, key, f"signing key {key.id}"), None):
            yield problem
            return


def _seal(ports: Ports, key: SigningKey | SrlKey, name: str) -> Iterator[tuple[str, str]]:
    try:
        if seals.is_of_earlier_version(ports, key):
            yield f"the seed of its {name} is sealed as an earlier version did", "run: migrate"
        elif seeds.public_key(seals.opened(ports, key)) != key.public_key:
            yield f"the seed of its {name} is another key's", _RESTORE
    except Corrupt:
        yield f"the seed of its {name} does not open", "put back the key that sealed those of"


def _seal_and_open(ports: Ports) -> None:
    context = seeds.seal_context("doctor", "doctor", purpose=Purpose.SRL)
    ports.keys.unwrap(ports.keys.wrap(b"doctor", context=context), context=context)


def _cause(error: Exception) -> str:
    return f"{error} ({error.__cause__})" if error.__cause__ else str(error)
