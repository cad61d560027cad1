"""What people do with API keys and service accounts, and whoever has a key that ended."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.errors import InsufficientScope, NotFound
from shared.model import api_keys as model
from shared.model.callers import Scope
from shared.operations.access import api_key_creation, api_key_rotation, api_keys, service_accounts
from shared.operations.access.api_key_rotation import RotatedKey
from shared.operations.base import counters
from shared.operations.changes import key_revocation, list_signers, revocations, signing_keys
from shared.ports import Ports
from tests.world.broken import Broken
from tests.world.keys import Account, Held, Ring
from tests.world.world import QUOTA

if TYPE_CHECKING:
    from tests.world.people import Deed

_NAMES: Final = ("robot", "ci")


def _count(deed: "Deed", *changed: Account) -> None:
    """Note with which change of the tombstones this was acknowledged."""
    store: Any = deed.life.world.store
    with deed.life.world.off_stage():
        ports = replace(deed.life.server().ports, store=store)
        number = counters.of_tombstones(ports, deed.books.tenant.id)
    for each in changed:
        each.counted = number


def _hold(deed: "Deed", made: api_key_creation.CreatedKey) -> Held:
    ring, key = deed.books.ring, made.api_key
    account = ring.accounts.get(key.service_account_id or "")
    held = ring.keys[key.id] = Held.of(made, account)
    if account is not None:
        owned = model.owned_by(deed.books.tenant.id, account.id)
        if len(deed.life.world.stage.records.rows.get(owned, {})) > QUOTA:
            raise Broken(f"{account.id} has more than {QUOTA} keys")
    return held


def make_api_key(deed: "Deed") -> None:
    ring, seconds = deed.books.ring, deed.random.choice([None, None, 5, 30])
    now = deed.life.people.wall().replace(microsecond=0)
    end = None if seconds is None else now + timedelta(seconds=seconds)
    account_id = deed.pick([None, *ring.accounts])
    scopes = tuple(deed.random.sample([*Scope], deed.random.choice([1, 2])))

    def call(ports: Ports) -> Any:
        return api_keys.create(
            ports,
            deed.caller,
            name="k",
            scopes=scopes,
            expires_at=end,
            service_account_id=account_id,
        )

    made = deed.ask("make an API key", call, "api_key.create")
    if made is not None:
        held = _hold(deed, made)
        knock(deed, held)
        if held.expires_at is not None:
            deed.life.world.sleep((held.expires_at - deed.life.people.wall()).total_seconds())
            knock(deed, held)


def _change(
    deed: "Deed", held: Account, words: str, call: Callable[[Ports], Any], mark: str, *, to: bool
) -> Any:
    """Ask for a change of a key or an account; what is returned, or None if it is refused."""
    ring, begun, done, is_known = deed.books.ring, held.begin(), None, False
    try:
        done = deed.ask(f"{words} {held.id[-3:]}", call, mark)
        is_known = True
    finally:
        if isinstance(done, RotatedKey) and isinstance(held, Held):
            held.expires_at = min(held.expires_at or done.accepted_until, done.accepted_until)
        held.end(begun, None if done is None else to, is_known=is_known)
    if done is not None:
        _count(deed, held)
        knock(
            deed, deed.pick([each for each in ring.keys.values() if held in (each, each.account)])
        )
    return done


def _key(deed: "Deed") -> Held | None:
    """A key of the tenant, and rarely that of the people themselves."""
    ring = deed.books.ring
    return ring.own if deed.random.random() < 0.1 else deed.pick([*ring.keys.values()])


def rotate_api_key(deed: "Deed") -> None:
    if (held := deed.pick([*deed.books.ring.keys.values()])) is None:
        return
    grace = deed.random.choice([0, 5, 20])

    def call(ports: Ports) -> Any:
        return api_key_rotation.rotate(ports, deed.caller, key_id=held.id, grace_seconds=grace)

    done = _change(deed, held, "rotate the API key", call, "api_key.rotate", to=bool(grace))
    if done is not None:
        _hold(deed, done.created)


def revoke_api_key(deed: "Deed") -> None:
    if (held := _key(deed)) is not None:
        _change(
            deed,
            held,
            "revoke the API key",
            lambda ports: api_keys.revoke(ports, deed.caller, key_id=held.id),
            "",
            to=False,
        )


def delete_api_key(deed: "Deed") -> None:
    if (held := _key(deed)) is None:
        return

    def call(ports: Ports) -> bool:
        api_keys.delete(ports, deed.caller, key_id=held.id)
        return True

    _change(deed, held, "delete the API key", call, "api_key.delete", to=False)


def make_account(deed: "Deed") -> None:
    name = deed.random.choice(_NAMES)

    def call(ports: Ports) -> Any:
        return service_accounts.create(ports, deed.caller, name=name)

    made = deed.ask(f"make the account {name}", call, "service_account.create")
    if made is not None:
        deed.books.ring.accounts[made.id] = Account(made.id)
        names = deed.books.ring.names
        if name in names:
            raise Broken(f"two accounts have the name {name}")
        names.add(name)


def switch_account(deed: "Deed") -> None:
    account = deed.pick([*deed.books.ring.accounts.values()])
    if account is None:
        return
    is_on = deed.random.random() < 0.5
    run = service_accounts.enable if is_on else service_accounts.disable

    def call(ports: Ports) -> Any:
        return run(ports, deed.caller, account_id=account.id)

    _change(deed, account, "enable" if is_on else "disable", call, "", to=is_on)


def use_api_key(deed: "Deed") -> None:
    """Somebody uses a key, for what any key may do, or for what only an administrator may."""
    knock(deed, deed.pick([*deed.books.ring.keys.values()]))


def knock(deed: "Deed", held: Held | None) -> None:
    """Use a key, if somebody has one."""
    if held is None:
        return

    def call(ports: Ports) -> bool:
        found = api_keys.introduce(ports, deed.caller)
        key_id = found.key.id if found.key else None
        if (key_id, found.settings.tenant_id) != (held.id, deed.books.tenant.id):
            raise Broken(f"{held.id} is introduced as another key")
        if Scope.ADMIN not in held.scopes:
            _refused(lambda: list_signers.rotate(ports, deed.caller), InsufficientScope)
        return True

    deed.ask(f"say who has the key {held.id[-3:]}", call, key=held)


def pry(deed: "Deed") -> None:
    """Somebody with a key of this tenant reaches for what the other one has."""
    (other,) = (each for each in deed.life.oracle.books.values() if each is not deed.books)
    found = [each.revocation_id for each in other.warrants.values() if each.revocation_id]
    reaches = [*_reaches(other.ring, [*other.keys])]
    reaches += [(revocations.delete, {"revocation_id": each}) for each in found]
    run, what = deed.random.choice(reaches)

    def call(ports: Ports) -> bool:
        _refused(lambda: run(ports, deed.caller, **what), NotFound)
        listed = api_keys.page(ports, deed.caller, before=None, limit=50).entries
        if {key.tenant_id for key, _ in listed} != {deed.books.tenant.id}:
            raise Broken("a tenant is shown the API keys of another")
        return True

    deed.ask("give what is another tenant's", call)


def _reaches(ring: Ring, signing: list[str]) -> Iterator[tuple[Callable[..., object], Any]]:
    for held in [ring.own, *ring.keys.values()]:
        yield from ((run, {"key_id": held.id}) for run in (api_keys.get, api_keys.revoke))
        yield api_keys.delete, {"key_id": held.id}
        yield api_key_rotation.rotate, {"key_id": held.id, "grace_seconds": 0}
    yield from ((service_accounts.disable, {"account_id": each}) for each in ring.accounts)
    for each in signing:
        yield signing_keys.rotate, {"key_id": each}
        yield key_revocation.revoke, {"key_id": each, "reason": "mine"}


def _refused(reach: Callable[[], object], why: type[Exception]) -> None:
    try:
        done = reach()
    except why:
        return
    raise Broken(f"nobody may do this, and it was done: {done}")
