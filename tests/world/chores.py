"""What people do beside revoking: what is registered is there until it is removed, and no more."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from functions.authorizers import operations as authorizers
from functions.authorizers import records as authorizer_model
from functions.authorizers import registering, registrations
from functions.authorizers.records import AuthorizerDescription
from functions.transparency_log import operations as sealed_log
from functions.webhooks import operations as managing
from functions.webhooks import records as webhook_model
from shared.model.items import Partition
from shared.model.signing_keys import SigningKeyType
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.changes import key_revocation, revocations, signing_keys, warrants
from shared.operations.changes.warrants import SignRequest
from shared.operations.lists import decisions, in_force, publication, records
from shared.operations.lists.feed_writer import FeedWriter
from shared.ports import Ports
from tests.world.broken import Broken
from tests.world.memory import Records
from tests.world.world import QUOTA

if TYPE_CHECKING:
    from tests.world.people import Deed


@dataclass(frozen=True)
class Kind:
    """A kind of what is registered: how it is made and removed, and where it is."""

    name: str
    partition: Callable[[str], Partition]
    make: Callable[[Ports, "Deed"], str]
    remove: Callable[[Ports, "Deed", str], None]
    made: str
    removed: str
    is_exact: bool = True


def _hook(ports: Ports, deed: "Deed") -> str:
    return managing.create(
        ports,
        deed.caller,
        url="https://hooks.example/",
        events=("key.revoke",),
        description=None,
    ).webhook.id


def _edge(ports: Ports, deed: "Deed") -> str:
    name = f"edge-{deed.random.getrandbits(32)}"
    return registering.register(
        ports, deed.caller, description=AuthorizerDescription(name)
    ).authorizer.id


KINDS: Final = (
    Kind(
        "webhook",
        webhook_model.webhooks,
        _hook,
        lambda ports, deed, found: managing.delete(ports, deed.caller, webhook_id=found),
        "webhook.create",
        "webhook.delete",
    ),
    Kind(
        "authorizer",
        authorizer_model.authorizers,
        _edge,
        lambda ports, deed, found: authorizers.remove(ports, deed.caller, authorizer_id=found),
        "authorizer.register",
        "authorizer.remove",
        is_exact=False,
    ),
)


@dataclass
class Register:
    """What of a kind a tenant has: whether each is there, None if that is open."""

    kind: Kind
    partition: Partition
    found: dict[str, bool | None]

    def check(self, store: Records) -> None:
        """What was acknowledged is there, or not."""
        rows = store.rows.get(self.partition, {})
        wrong = {each for each, is_there in self.found.items() if is_there is (each not in rows)}
        if wrong:
            raise Broken(f"of the {self.kind.name}s, {wrong} are not as they must be")
        # Simultaneous registrations may exceed the limit by their number (FLEET-3).
        if len(rows) > QUOTA and self.kind.is_exact:
            raise Broken(f"there are {len(rows)} {self.kind.name}s")


def register(deed: "Deed") -> None:
    """Make a webhook, or register an authorizer."""
    held = deed.random.choice(deed.books.registers)
    kind, rows = held.kind, deed.life.world.stage.records.rows
    is_full, before = len(rows.get(held.partition, {})) >= QUOTA, dict(held.found)
    made = deed.ask(f"make a {kind.name}", lambda ports: kind.make(ports, deed), kind.made)
    if made is not None:
        if is_full and before == held.found and None not in before.values():
            raise Broken(f"a {kind.name} is made, although there are {QUOTA}")
        held.found[made] = True
        held.check(deed.life.world.stage.records)


def remove(deed: "Deed") -> None:
    """Remove one of them."""
    held = deed.random.choice(deed.books.registers)
    kind, chosen = held.kind, deed.pick([each for each, known in held.found.items() if known])
    if chosen is None:
        return
    held.found[chosen] = None

    def call(ports: Ports) -> bool:
        kind.remove(ports, deed, chosen)
        return True

    if deed.ask(f"remove the {kind.name}", call, kind.removed):
        held.found[chosen] = False


def rotate_audit_signer(deed: "Deed") -> None:
    deed.ask(
        "rotate the audit signer",
        lambda ports: sealed_log.rotate(ports, deed.caller),
        "audit_log.rotate_key",
    )


def set_settings(deed: "Deed") -> None:
    change = deed.random.choice(
        [
            SettingsChange(feed_window_ms=deed.random.choice([0, 1000, 5000])),
            SettingsChange(srl_ttl_seconds=deed.random.choice([300, 900])),
            SettingsChange(rotation_grace_seconds=deed.random.choice([0, 60])),
        ]
    )
    deed.ask("change a setting", lambda p: tenant_settings.update(p, deed.caller, change=change))


def check(deed: "Deed") -> None:
    """Ask whether a warrant is revoked: the answer is what was acknowledged before."""
    books = deed.books
    warrant_id = deed.pick([each for each in books.warrants if each not in books.unsigned])
    if warrant_id is None:
        return
    standing = books.warrants[warrant_id]

    def call(ports: Ports) -> bool:
        before = books.revoked(warrant_id), standing.since
        found = revocations.check(ports, deed.caller, warrant_id=warrant_id).revoked
        is_same = before == (books.revoked(warrant_id), standing.since)
        if is_same and before[0] is (not found):
            raise Broken(f"a check says {found} of {warrant_id}")
        return True

    deed.ask(f"check {warrant_id}", call)


def lay_up(deed: "Deed") -> None:
    """Suspend a root, then revoke it with all below: the key below it signs nothing meanwhile."""
    root = deed.ask("make a root", lambda ports: _key(ports, deed, None), "key.create")
    if root is None:
        return
    child = deed.ask("make a key below", lambda ports: _key(ports, deed, root), "key.create")
    if child is None:
        return
    steps: list[tuple[str, Callable[[Ports], Any], str]] = [
        (
            "suspend the root",
            lambda ports: signing_keys.suspend(ports, deed.caller, key_id=root),
            "key.suspend",
        ),
        (
            "revoke it and its keys",
            lambda ports: key_revocation.revoke(
                ports, deed.caller, key_id=root, reason="lost", cascade=True
            ),
            "key.revoke",
        ),
        (
            "enable the key below",
            lambda ports: signing_keys.enable(ports, deed.caller, key_id=child),
            "",
        ),
    ]

    def sign(ports: Ports) -> bool:
        warrants.sign(ports, deed.caller, key_id=child, order=SignRequest(b"grant"))
        return True

    for words, call, mark in steps:
        deed.ask(words, call, mark)
        if deed.ask("sign with the key below", sign):
            raise Broken("a key signs whose root is suspended or revoked")


def _key(ports: Ports, deed: "Deed", parent: str | None) -> str:
    type_ = SigningKeyType.ISSUER if parent else SigningKeyType.ROOT
    made = signing_keys.create(ports, deed.caller, type_=type_, name="k", parent_id=parent)
    return made.id


def count_again(ports: Ports, tenant_id: str) -> None:
    """Count the authorizers, as happens each day: a count beside a registration may be wrong."""
    item = ports.store.get(authorizer_model.registered_address(tenant_id))
    if item is not None:
        registrations.recount(ports, tenant_id, registrations.parse_counts(item))


def compare_ways(ports: Ports, tenant_id: str) -> list[str]:
    """Hold the next list, made from the one before, to the one made from all records (SRL-7).

    Return what is wrong.
    """
    before = in_force.read_facts(ports, tenant_id)
    feed = FeedWriter(ports, before)
    feed.publish_pending()
    srl = publication.ListPublication.begin(feed, before)
    if decisions.is_comparison_due(feed.facts.srl_head, srl.issue):
        return []
    followed = srl.follow_feed() or srl.rebuild()
    recorded = srl.read_records().content
    signers = records.read_revoked_signers(ports, tenant_id)
    ended = records.read_tombstones(ports, tenant_id, changes=followed.tombstones.changes)
    wanted = replace(recorded, signers=signers), ended
    is_same = (followed.content, followed.tombstones) == wanted
    return [] if is_same else [f"a list that follows is {followed}, one of all records {wanted}"]
