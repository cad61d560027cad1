"""The API keys of a tenant: none opens after its end was acknowledged, and none what is another's.

Whoever asks for anything does it with a key, which the server looks up as at each request (AUTH-3).
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from starlette.requests import Request

from shared.errors import InvalidApiKey
from shared.model import api_keys as model
from shared.model import service_accounts as account_model
from shared.model.api_keys import ApiKey, ApiKeyStatus
from shared.model.callers import Caller, Scope
from shared.model.service_accounts import AccountStatus
from shared.operations.access import api_key_creation, api_keys
from shared.ports import Ports
from shared.web.authentication import authenticate
from tests.kit import asgi
from tests.world.broken import Broken
from tests.world.machines import Server
from tests.world.memory import Records


@dataclass
class Account:
    """A service account: whether its keys may open, None if that is open."""

    id: str
    is_open: bool | None = True
    busy: int = 0
    changes: int = 0
    # The counter of tombstones when its state was acknowledged.
    counted: int = 0

    def begin(self) -> tuple[int, bool | None]:
        """Somebody asks for a change; returns what `end` needs."""
        before = self.is_open
        self.busy += 1
        self.changes += 1
        self.is_open = False if self.is_over else None
        return self.changes, before

    def end(self, begun: tuple[int, bool | None], to: bool | None, *, is_known: bool) -> None:
        """It was done, or refused if `to` is None, or neither is known."""
        number, before = begun
        is_alone = self.changes == number and self.busy == 1
        self.busy -= 1
        self.changes += 1
        if self.is_over or not is_known:
            return
        if to is False and self.is_final:
            self.is_open = False
        elif is_alone:
            self.is_open = before if to is None else to

    is_final = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        return self.is_final and self.is_open is False


@dataclass
class Held(Account):
    """A key whose secret somebody has; `is_open` is without regard to its account and its end."""

    secret: str = ""
    scopes: tuple[Scope, ...] = ()
    account: Account | None = None
    expires_at: datetime | None = None
    is_final = True

    @classmethod
    def of(cls, made: api_key_creation.CreatedKey, account: Account | None = None) -> Self:
        """A new key."""
        key = made.api_key
        return cls(
            key.id,
            secret=made.secret,
            scopes=key.scopes,
            account=account,
            expires_at=key.expires_at,
        )

    def standing(self, wall: datetime) -> tuple[bool | None, int]:
        """Whether it opens, None if that is open; and how often that may have changed."""
        own, account = self.is_open, self.account
        states = [own, account.is_open if account else True]
        states += [False] if self.expires_at is not None and self.expires_at <= wall else []
        opens = False if False in states else None if None in states else True
        return opens, self.changes + (account.changes if account else 0)


@dataclass
class Ring:
    """All keys and accounts of a tenant."""

    tenant_id: str
    own: Held
    keys: dict[str, Held] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    # The names that accounts have or had.
    names: set[str] = field(default_factory=set)
    # What had ended when the records were put back, and by which moment of the journal.
    _ended: list[Held] = field(default_factory=list)
    _said: int = 0

    def settle(self, store: Records) -> None:
        """Look up what is open, unless somebody is about to change it."""
        for each in self.accounts.values():
            if each.is_open is None and not each.busy:
                item = store.get(account_model.accounts(self.tenant_id).address(each.id))
                each.is_open = item is not None and item["status"] == AccountStatus.ACTIVE
        for held in [self.own, *self.keys.values()]:
            if held.is_open is None and not held.busy:
                self._settle(held, store)

    def _settle(self, held: Held, store: Records) -> None:
        item = store.get(model.records(self.tenant_id).address(held.id))
        found = None if item is None else ApiKey.from_item(item)
        held.is_open = found is not None and found.status is ApiKeyStatus.ACTIVE
        held.expires_at = found.expires_at if found else None
        held.changes += 1

    def open(self) -> list[str]:
        """What is still being asked."""
        found = [self.own, *self.keys.values(), *self.accounts.values()]
        return [f"{each.id} is open" for each in found if each.busy or each.is_open is None]

    def before_restore(self, said: int, wall: datetime) -> None:
        """The records are put back now: the journal has what ended until this change."""
        self._said = said
        self._ended = [each for each in self.keys.values() if each.standing(wall)[0] is False]
        for each in [self.own, *self.keys.values(), *self.accounts.values()]:
            each.is_open = None
            each.changes += 1

    def recovered(self, ports: Ports, *, is_said: bool) -> None:
        """A recovery has ended; `is_said` is whether it told that something may be missing."""
        for each in self._ended:
            try:
                api_keys.authenticate(ports, each.secret)
            except InvalidApiKey:
                continue
            ends = [each.counted, each.account.counted if each.account else 0]
            if not is_said or 0 < max(ends) <= self._said:
                raise Broken(f"the recovery lets {each.id} in again")


def admitted(server: Server, ring: Ring, held: Held, request_id: str) -> Caller:
    """The caller whom a server takes the holder of a key for. Raises `InvalidApiKey`, `Broken`."""
    headers = [("Authorization", f"Bearer {held.secret}")]
    request = Request(asgi.request_scope("GET", "/v1/whoami", headers))
    before, caller = held.standing(server.ports.now()), None
    with suppress(InvalidApiKey):
        caller = authenticate(server.ports, request, source_ip="203.0.113.1", request_id=request_id)
    opens, opened = before[0], caller is not None
    if held.standing(server.ports.now()) == before and opens is not None and opens != opened:
        raise Broken(f"{held.id} is {'accepted after its end' if opened else 'refused'}")
    if caller is None:
        raise InvalidApiKey
    if (caller.tenant_id, caller.key_id, caller.scopes) != (ring.tenant_id, held.id, held.scopes):
        raise Broken(f"{held.id} is taken for another key")
    return caller
