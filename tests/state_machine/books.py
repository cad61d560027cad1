"""What must be true of a tenant: dictionaries, filled from what was asked and answered.

Written from the contract, in the plainest way and with none of the service's own code.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

Fields = dict[str, Any]


class Entry(NamedTuple):
    """What an entry of the audit log says."""

    action: str
    resource_id: str
    actor: str


@dataclass
class Books:
    """One tenant. Records are kept as the API shows them, by identifier, oldest first."""

    handle: str
    id: str
    admin_id: str
    secrets: dict[str, str] = field(default_factory=dict)
    # What the recount needs to ask, so that no rule takes it away.
    spared: set[str] = field(default_factory=set)
    settings: Fields = field(default_factory=dict)
    api_keys: dict[str, Fields] = field(default_factory=dict)
    # Those that another took the place of.
    rotated: set[str] = field(default_factory=set)
    # The service account of each API key that was given one.
    owners: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, Fields] = field(default_factory=dict)
    # Every name that an account ever had.
    names: set[str] = field(default_factory=set)
    authorizers: dict[str, Fields] = field(default_factory=dict)
    webhooks: dict[str, Fields] = field(default_factory=dict)
    keys: dict[str, Fields] = field(default_factory=dict)
    # Of each key, when its present version came; of each superseded one, whose and which it is.
    since: dict[str, str] = field(default_factory=dict)
    superseded: dict[str, tuple[str, int]] = field(default_factory=dict)
    superseded_at: dict[str, str] = field(default_factory=dict)
    # Time and reason of each revoked key, in order of revocation.
    revoked_keys: dict[str, Fields] = field(default_factory=dict)
    warrants: dict[str, Fields] = field(default_factory=dict)
    revocations: dict[str, Fields] = field(default_factory=dict)
    # When a revoked warrant ends by the administrator's word, by revocation.
    said_to_end: dict[str, str] = field(default_factory=dict)
    # The key that signed the list in force is `signer_id`.
    signers: dict[str, Fields] = field(default_factory=dict)
    signer_id: str = ""
    # When the last list of each retired signer expires.
    listed_until: dict[str, str] = field(default_factory=dict)
    has_grace: bool = False
    audit_signers: dict[str, Fields] = field(default_factory=dict)
    srl: Fields = field(default_factory=dict)
    etag: str = ""
    # Whether anything was revoked or taken back since the last list.
    changed: bool = False
    # Whether marks may be left that ask for one list more (docs/adr/02): those of a publication
    # in which something broke, and those of keys, which are looked at again after a while.
    may_be_marked: bool = False
    entries: Counter[Entry] = field(default_factory=Counter)

    # --- API keys ---

    def is_live(self, key_id: str, now: datetime) -> bool:
        """Whether an API key opens."""
        key = self.api_keys.get(key_id)
        if key is None or key["status"] != "active" or passed(key["expires_at"], now):
            return False
        account = self.owners.get(key_id)
        return account is None or self.accounts[account]["status"] == "active"

    def live_admins(self, now: datetime) -> list[str]:
        """The API keys that can administer the tenant."""
        return [
            key_id
            for key_id, key in self.api_keys.items()
            if "admin" in key["scopes"] and self.is_live(key_id, now)
        ]

    def owned(self, account_id: str) -> list[str]:
        """The API keys of an account."""
        return [i for i in self.api_keys if self.owners.get(i) == account_id]

    def identity(self, key_id: str) -> str:
        """Who acts with this API key."""
        account = self.owners.get(key_id)
        return str(self.accounts[account]["email"]) if account else f"{key_id}@{self.handle}.svc"

    # --- signing keys ---

    def ancestors(self, key_id: str) -> Iterator[str]:
        """Parent, parent's parent and so on."""
        parent = self.keys[key_id]["parent_id"]
        while parent is not None:
            yield parent
            parent = self.keys[parent]["parent_id"]

    def doomed(self, key_id: str, *, cascade: bool) -> list[str]:
        """What a revocation of this key revokes."""
        below = [each for each in self.keys if key_id in self.ancestors(each)] if cascade else []
        return [each for each in (key_id, *below) if each not in self.revoked_keys]

    def version(self, key_id: str) -> int:
        """Which version of a key is in use, or which one a superseded record is."""
        if key_id in self.superseded:
            return self.superseded[key_id][1]
        return 1 + sum(current == key_id for current, _ in self.superseded.values())

    def versions(self, key_id: str) -> list[Fields]:
        """All versions of a key, newest first, as the API shows them."""
        current = self.superseded.get(key_id, (key_id, 0))[0]
        old = [each for each in self.superseded if self.superseded[each][0] == current]
        return [
            {
                "key_id": each,
                "version": self.version(each),
                "status": self.keys[each]["status"],
                "public_key": self.keys[each]["public_key"],
                "created_at": self.since.get(each, self.keys[each]["created_at"]),
                "rotated_at": self.superseded_at.get(each),
            }
            for each in (current, *reversed(old))
        ]

    def signed_by(self, key_id: str) -> list[Fields]:
        """What a key signed, or just a superseded version of it."""
        current, version = self.superseded.get(key_id, (key_id, None))
        return [
            each
            for each in self.warrants.values()
            if each["key_id"] == current and version in (None, each["key_version"])
        ]

    # --- warrants ---

    def revocation_of(self, warrant_id: str) -> Fields | None:
        """The record that revokes a warrant."""
        records = self.revocations.values()
        return next((each for each in records if each["warrant_id"] == warrant_id), None)

    def verdict(self, warrant_id: str) -> Fields:
        """What a check says of a warrant."""
        cause = self.revocation_of(warrant_id)
        if cause is not None:
            return _verdict(warrant_id, cause["created_at"], cause["reason"])
        warrant = self.warrants.get(warrant_id)
        if warrant is not None:
            for key_id, cause in self.revoked_keys.items():
                if warrant in self.signed_by(key_id):
                    return _verdict(warrant_id, cause["revoked_at"], cause["reason"])
        return {"warrant_id": warrant_id, "revoked": False}

    def known_warrants(self) -> list[str]:
        """Every warrant that the tenant has to do with."""
        revoked = (each["warrant_id"] for each in self.revocations.values())
        return list(dict.fromkeys([*self.warrants, *revoked]))

    # --- the list ---

    def listed(self, issued_at: datetime, lifetime: timedelta) -> list[str]:
        """RevokedIDs of a list that is made now."""
        return sorted(
            each
            for each in self.known_warrants()
            if self.verdict(each)["revoked"] and not self._left_behind(each, issued_at - lifetime)
        )

    def is_due(self, now: datetime) -> bool:
        """Whether the schedule publishes."""
        issued = moment(self.srl["payload"]["IssuedAt"])
        lifetime = moment(self.srl["payload"]["ExpiresAt"]) - issued
        return self.changed or issued + lifetime // 2 <= now or self._is_ahead(now)

    def issue_time(self, now: datetime) -> datetime:
        """When a list is issued that is made now."""
        return now if self._is_ahead(now) else max(now, moment(self.srl["payload"]["IssuedAt"]))

    def _is_ahead(self, now: datetime) -> bool:
        return moment(self.srl["payload"]["IssuedAt"]) > now + timedelta(minutes=5)

    def _left_behind(self, warrant_id: str, since: datetime) -> bool:
        record = self.revocation_of(warrant_id) or {}
        expires_at = self.warrants.get(warrant_id, {}).get("expires_at") or self.said_to_end.get(
            record.get("id", "")
        )
        return expires_at is not None and moment(expires_at) < since

    def pending_signer(self) -> Fields | None:
        """The key that is to sign next."""
        return next((each for each in self.signers.values() if each["status"] == "pending"), None)

    def signer_activates_at(self, signer: Fields) -> datetime:
        """From when a pending key may be activated without force."""
        grace = timedelta(seconds=self.settings["rotation_grace_seconds"])
        return moment(signer["created_at"]) + grace

    def hand_over(self, signer: Fields, *, old_status: str) -> None:
        """Another key signs from now on; call it before the list of that key is entered."""
        old = self.signers[self.signer_id]
        old["status"] = old_status
        if old_status == "retired":
            self.listed_until[self.signer_id] = self.srl["payload"]["ExpiresAt"]
        self.signers[signer["key_id"]] = signer
        self.signer_id = signer["key_id"]

    # --- the audit log ---

    def enter(self, action: str, resource_id: str, actor: str) -> None:
        """One entry more; what changes the list or the tombstones beside it is to be published."""
        self.entries[Entry(action, resource_id, actor)] += 1
        self.changed |= action in _PUBLISHED_NEXT
        self.may_be_marked |= action in _PUBLISHED_NEXT


_PUBLISHED_NEXT = {
    *("api_key.rotate", "api_key.revoke", "api_key.delete"),
    *("key.revoke", "key.rotate", "key.suspend", "key.enable"),
    *(
        "revocation.create",
        "revocation.extend",
        "revocation.delete",
        "revocation.create_batch",
        "revocation.extend_batch",
        "revocation.delete_batch",
        "srl.revoke_key",
    ),
    *("service_account.disable", "service_account.enable", "service_account.delete"),
}


def moment(text: str) -> datetime:
    """The moment that an answer tells."""
    return datetime.fromisoformat(text)


def text(moment: datetime) -> str:
    """A moment as an answer tells it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def passed(text: str | None, now: datetime) -> bool:
    """Whether there is such a moment and it has come."""
    return text is not None and moment(text) <= now


def _verdict(warrant_id: str, revoked_at: str, reason: str) -> Fields:
    return {"warrant_id": warrant_id, "revoked": True, "revoked_at": revoked_at, "reason": reason}
