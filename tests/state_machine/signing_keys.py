"""Signing keys: create, rotate, suspend, enable, revoke, list their versions."""

from collections.abc import Callable
from datetime import datetime

from hypothesis import strategies as st

from tests.state_machine.attempts import (
    CREATED,
    INVALID,
    NOT_FOUND,
    OK,
    READERS,
    WRONG_STATE,
    Done,
    Outcome,
)
from tests.state_machine.books import Books, Fields, passed
from tests.state_machine.machine import Machine, step
from tests.state_machine.service import How, between
from tests.state_machine.strategies import HANDLE, HOW, MINUTES, PICK


class SigningKeyRules(Machine):
    """What can be done with signing keys."""

    @step(handle=HANDLE, how=HOW, minutes=MINUTES)
    def create_root(self, handle: str, how: How, minutes: int | None) -> None:
        """A root has no parent."""
        body: Fields = {"type": "root", "name": f"root of {handle}"}
        self._create(self.books[handle], how, body, minutes, lambda _: CREATED)

    @step(handle=HANDLE, how=HOW, type_=st.sampled_from(["issuer", "notary"]), pick=PICK)
    def create_child(self, handle: str, how: How, type_: str, pick: int) -> None:
        """A child has an active, unexpired root or issuer of its own tenant above it."""
        books = self.books[handle]
        parent_id = self.choose(books, "keys", pick, _may_be_parent)
        body: Fields = {"type": type_, "name": f"{type_} of {handle}", "parent_id": parent_id}

        def outcome(now: datetime) -> Outcome:
            parent = books.keys.get(parent_id)
            if parent is None or parent["type"] == "notary":
                return INVALID
            return CREATED if is_active(parent, now) else WRONG_STATE

        self._create(books, how, body, None, outcome)

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def rotate_key(self, handle: str, how: How, pick: int) -> None:
        """A rotation keeps the identifier; the version before becomes a record of its own."""
        books = self.books[handle]
        key_id = self.choose(books, "keys", pick, has_status("active"))
        path = f"/v1/keys/{key_id}"

        def evidence() -> Fields | None:
            fields: Fields = self.ask(books, path).json()
            return None if fields["public_key"] == books.keys[key_id]["public_key"] else fields

        def effect(done: Done) -> None:
            self._supersede(books, key_id, done)
            books.enter("key.rotate", key_id, done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{path}/rotate",
            lambda _: self._allowed(books, key_id, {"active"}),
            effect=effect,
            evidence=evidence,
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def suspend_key(self, handle: str, how: How, pick: int) -> None:
        """An active key can be suspended; a suspended one stays as it is."""
        self._switch_key(handle, how, pick, ("suspend", "active", "suspended"))

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def enable_key(self, handle: str, how: How, pick: int) -> None:
        """A suspended key can be enabled; an active one stays as it is."""
        self._switch_key(handle, how, pick, ("enable", "suspended", "active"))

    @step(handle=HANDLE, how=HOW, pick=PICK, cascade=st.booleans())
    def revoke_key(self, handle: str, how: How, pick: int, cascade: bool) -> None:
        """Revoked is for ever; with `cascade`, all below goes in the same call."""
        books = self.books[handle]
        key_id = self.choose(books, "keys", pick, lambda each: each["status"] != "revoked")
        body: Fields = {"reason": f"lost by {handle}", "cascade": cascade}

        def evidence() -> Fields | None:
            doomed = books.doomed(key_id, cascade=cascade)
            return {} if doomed and self.moved(books, f"/v1/keys/{doomed[0]}", "revoked") else None

        def effect(done: Done) -> None:
            for each in books.doomed(key_id, cascade=cascade):
                self._enter_revocation(books, each, body["reason"], done)
            answered = self._answered(books, key_id)
            assert done.fields in ({}, answered)
            below = (books.keys[each] for each in books.keys if key_id in books.ancestors(each))
            staying = sum(each["status"] in ("active", "suspended") for each in below)
            assert answered.get("descendants", 0) == staying

        self.attempt(
            books,
            how,
            "POST",
            f"/v1/keys/{key_id}/revoke",
            lambda _: OK if key_id in books.keys else NOT_FOUND,
            body=body,
            effect=effect,
            evidence=evidence,
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def list_versions(self, handle: str, how: How, pick: int) -> None:
        """The versions of a key, whichever of them is asked for."""
        books = self.books[handle]
        key_id = self.choose(books, "keys", pick, lambda each: "rotated_at" in each)

        def effect(done: Done) -> None:
            assert done.fields["versions"] == books.versions(key_id)

        self.read_of(books, how, key_id, "versions", effect)

    def read_of(
        self, books: Books, how: How, key_id: str, what: str, effect: Callable[[Done], None]
    ) -> None:
        """Read something of a key."""

        def outcome(_now: datetime) -> Outcome:
            return OK if key_id in books.keys else NOT_FOUND

        path = f"/v1/keys/{key_id}/{what}"
        scopes = (*READERS, "signer") if what == "versions" else READERS
        self.attempt(books, how, "GET", path, outcome, scopes=scopes, effect=effect)

    def _create(
        self,
        books: Books,
        how: How,
        body: Fields,
        minutes: int | None,
        outcome: Callable[[datetime], Outcome],
    ) -> None:
        if minutes is not None:
            body["expires_at"] = self.later(minutes)

        def effect(done: Done) -> None:
            key = done.fields
            parent = books.keys.get(body.get("parent_id", ""), {})
            answered = {name: key[name] for name in ("id", "public_key", "created_at")}
            inherited = {"parent_id": None, "expires_at": parent.get("expires_at")}
            assert key == inherited | body | answered | {"status": "active"}
            assert between(key["created_at"], done.span)
            books.keys[key["id"]] = key
            books.since[key["id"]] = key["created_at"]
            books.enter("key.create", key["id"], done.actor)

        self.attempt(
            books,
            how,
            "POST",
            "/v1/keys",
            outcome,
            body=body,
            effect=effect,
            evidence=lambda: self.new_record(books, "keys"),
        )

    def _switch_key(self, handle: str, how: How, pick: int, move: tuple[str, str, str]) -> None:
        books, (action, start, target) = self.books[handle], move
        key_id = self.choose(books, "keys", pick, has_status(start))
        path = f"/v1/keys/{key_id}"

        def effect(done: Done) -> None:
            key = books.keys[key_id]
            if key["status"] != target:
                key["status"] = target
                books.enter(f"key.{action}", key_id, done.actor)
            assert done.fields | key == done.fields

        self.attempt(
            books,
            how,
            "POST",
            f"{path}/{action}",
            lambda _: self._allowed(books, key_id, {start, target}),
            effect=effect,
            evidence=lambda: self.moved(books, path, target),
        )

    def _allowed(self, books: Books, key_id: str, states: set[str]) -> Outcome:
        if key_id not in books.keys:
            return NOT_FOUND
        return OK if books.keys[key_id]["status"] in states else WRONG_STATE

    def _supersede(self, books: Books, key_id: str, done: Done) -> None:
        """Enter what a rotation left: the key under its next version, and the version before."""
        current, old, *_ = self.ask(books, f"/v1/keys/{key_id}/versions").json()["versions"]
        key, number = books.keys[key_id], books.version(key_id)
        assert (old["version"], current["version"]) == (number, number + 1)
        assert done.fields["public_key"] == current["public_key"] != key["public_key"]
        assert old["key_id"] not in books.keys
        assert between(old["rotated_at"], done.span)
        books.keys[old["key_id"]] = key | {
            "id": old["key_id"],
            "status": "rotated",
            "created_at": books.since[key_id],
            "rotated_at": old["rotated_at"],
            "version": number,
            "successor_id": key_id,
        }
        books.superseded[old["key_id"]] = key_id, number
        books.superseded_at[old["key_id"]] = old["rotated_at"]
        books.since[key_id] = old["rotated_at"]
        key |= {"public_key": current["public_key"]}

    def _enter_revocation(self, books: Books, key_id: str, reason: str, done: Done) -> None:
        answered = self._answered(books, key_id)
        assert answered["reason"] == reason
        assert between(answered["revoked_at"], done.span)
        books.keys[key_id]["status"] = "revoked"
        for name in ("rotated_at", "version", "successor_id"):
            books.keys[key_id].pop(name, None)
        books.revoked_keys[key_id] = {"revoked_at": answered["revoked_at"], "reason": reason}
        books.enter("key.revoke", key_id, done.actor)

    def _answered(self, books: Books, key_id: str) -> Fields:
        """What a revoked key answers to another revocation: it stays as it stands."""
        fields: Fields = self.ask_of(books)(f"/v1/keys/{key_id}/revoke", {"reason": "again"}).json()
        return fields


def has_status(status: str) -> Callable[[Fields], bool]:
    """Whether a key has this status."""
    return lambda key: bool(key["status"] == status)


def is_active(key: Fields, now: datetime) -> bool:
    """Whether a key may sign, or have children, as far as it is up to itself."""
    return has_status("active")(key) and not passed(key["expires_at"], now)


def _may_be_parent(key: Fields) -> bool:
    return has_status("active")(key) and bool(key["type"] != "notary")
