"""API keys: create, read, revoke, delete, use."""

from datetime import datetime, timedelta
from functools import partial

from hypothesis import strategies as st

from tests.state_machine.attempts import (
    CONFLICT,
    CREATED,
    INVALID,
    NOT_FOUND,
    OK,
    READERS,
    WRONG_STATE,
    Done,
    Outcome,
)
from tests.state_machine.books import Books, Fields, moment, passed, text
from tests.state_machine.machine import Machine, step
from tests.state_machine.recount import lasting
from tests.state_machine.service import INSTANCES, How, Request, between
from tests.state_machine.strategies import HANDLE, HOW, MINUTES, PICK

_SCOPES = st.sampled_from(
    [[each] for each in ("read-only", "authorizer", "admin", "revoker", "signer", "auditor")]
    + [["authorizer", "admin"]]
)


class ApiKeyRules(Machine):
    """What can be done with API keys."""

    @step(
        handle=HANDLE,
        how=HOW,
        scopes=_SCOPES,
        minutes=MINUTES,
        owner=st.none() | PICK,
    )
    def create_api_key(
        self, handle: str, how: How, scopes: list[str], minutes: int | None, owner: int | None
    ) -> None:
        """A new key opens at once, at every instance."""
        books = self.books[handle]
        body: Fields = {"name": f"key of {handle}", "scopes": scopes}
        if minutes is not None:
            body["expires_at"] = self.later(minutes)
        if owner is not None:
            body["service_account_id"] = self.choose(books, "accounts", owner, _is_active)
        end = books.api_keys.get(self.caller(books, how), {}).get("expires_at")

        def outcome(_now: datetime) -> Outcome:
            if end is not None and (minutes is None or body["expires_at"] > end):
                # No key creates one that outlives it.
                return INVALID
            if owner is None:
                return CREATED
            account = books.accounts.get(body["service_account_id"])
            if account is None:
                return INVALID
            return CREATED if _is_active(account) else WRONG_STATE

        def effect(done: Done) -> None:
            key = lasting(done.fields)
            secret = key.pop("key", None)
            generated = {"id": key["id"], "status": "active", "created_at": key["created_at"]}
            shown = {name: value for name, value in body.items() if name != "service_account_id"}
            assert key == {"expires_at": None} | shown | generated
            assert between(key["created_at"], done.span)
            books.api_keys[key["id"]] = key
            if owner is not None:
                books.owners[key["id"]] = body["service_account_id"]
            if secret is not None:
                books.secrets[key["id"]] = secret
            books.enter("api_key.create", key["id"], done.actor)
            self.knock(books, key["id"])

        self.attempt(
            books,
            how,
            "POST",
            "/v1/api-keys",
            outcome,
            body=body,
            effect=effect,
            evidence=lambda: self.new_record(books, "api_keys"),
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def read_api_key(self, handle: str, how: How, pick: int) -> None:
        """A key's use is never counted twice, though it may be lost."""
        books = self.books[handle]
        key_id = self.choose(books, "api_keys", pick)

        def effect(done: Done) -> None:
            assert lasting(done.fields) == books.api_keys[key_id]
            if key_id in books.secrets:
                assert done.fields["request_count"] <= self.service.sent[books.secrets[key_id]]

        self.attempt(
            books,
            how,
            "GET",
            f"/v1/api-keys/{key_id}",
            lambda _: OK if key_id in books.api_keys else NOT_FOUND,
            scopes=READERS,
            effect=effect,
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def revoke_api_key(self, handle: str, how: How, pick: int) -> None:
        """F13: a revoked key stays revoked, at every instance, from the next request on."""
        books = self.books[handle]

        def look(key_id: str, done: Done) -> None:
            assert done.fields["status"] == "revoked"
            self.knock(books, key_id)

        self.switch(books, how, "api_keys", pick, ("revoke", "revoked"), look)

    @step(handle=HANDLE, how=HOW, pick=PICK, grace=st.sampled_from([0, 60, 3600]))
    def rotate_api_key(self, handle: str, how: How, pick: int, grace: int) -> None:
        """F377: a new key opens at once, and the old one ends with its grace or before."""
        books = self.books[handle]
        key_id = self.choose(books, "api_keys", pick, _is_active)
        end = books.api_keys.get(self.caller(books, how), {}).get("expires_at")

        def outcome(now: datetime) -> Outcome:
            key = books.api_keys.get(key_id)
            if key is None:
                return NOT_FOUND
            is_over = not _is_active(key) or passed(key["expires_at"], now)
            if is_over or key_id in books.rotated:
                return WRONG_STATE
            new_end = _end_of_successor(key, now)
            if end is not None and (new_end is None or new_end > end):
                return INVALID
            account_id = books.owners.get(key_id)
            is_open = account_id is None or _is_active(books.accounts[account_id])
            return CREATED if is_open else WRONG_STATE

        def effect(done: Done) -> None:
            new, old = lasting(done.fields), books.api_keys[key_id]
            for name in ("predecessor_id", "predecessor_accepted_until"):
                new.pop(name, None)
            if "key" in new:
                books.secrets[new["id"]] = new.pop("key")
            assert [new[name] for name in ("name", "scopes")] == [old["name"], old["scopes"]]
            ends = [_end_of_successor(old, each) for each in done.span]
            assert None in ends or ends[0] <= new["expires_at"] <= ends[1]
            books.api_keys[new["id"]] = new
            if key_id in books.owners:
                books.owners[new["id"]] = books.owners[key_id]
            books.rotated.add(key_id)
            self._end(books, key_id, done, grace)
            books.enter("api_key.rotate", key_id, done.actor)
            for each in (key_id, new["id"]):
                self.knock(books, each)

        self.attempt(
            books,
            how,
            "POST",
            f"/v1/api-keys/{key_id}/rotate",
            outcome,
            body={"grace_seconds": grace},
            effect=effect,
            evidence=lambda: self.new_record(books, "api_keys"),
        )

    def _end(self, books: Books, key_id: str, done: Done, grace: int) -> None:
        """Enter when a key that was rotated ends."""
        key = books.api_keys[key_id]
        if grace == 0:
            key["status"] = "revoked"
            return
        start, end = (text(each + timedelta(seconds=grace)) for each in done.span)
        until = self.ask(books, f"/v1/api-keys/{key_id}").json()["expires_at"]
        assert until == key["expires_at"] or start <= until <= end
        assert until <= (key["expires_at"] or until)
        key["expires_at"] = until

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def delete_api_key(self, handle: str, how: How, pick: int) -> None:
        """A deleted key is gone for good, in whatever state it was."""
        books = self.books[handle]
        self.delete(books, how, "api_keys", pick, also=partial(self.knock, books))

    @step(handle=HANDLE, how=HOW, action=st.sampled_from(["revoke", "delete", "disable"]))
    def take_the_last_admin(self, handle: str, how: How, action: str) -> None:
        """A tenant never loses its last admin key."""
        books = self.books[handle]
        # Another one must live for a day more.
        if books.live_admins(self.clock() + timedelta(days=1)) != [books.admin_id]:
            return
        account_id = books.owners[books.admin_id]
        method, path = {
            "revoke": ("POST", f"/v1/api-keys/{books.admin_id}/revoke"),
            "delete": ("DELETE", f"/v1/api-keys/{books.admin_id}"),
            "disable": ("POST", f"/v1/service-accounts/{account_id}/disable"),
        }[action]
        self.attempt(books, how, method, path, lambda _: CONFLICT, goal=CONFLICT)

    @step(handle=HANDLE, pick=PICK)
    def use_api_key(self, handle: str, pick: int) -> None:
        """A key opens while it is active, unexpired, and its account enabled; else it does not."""
        books = self.books[handle]
        self.knock(books, [*books.secrets][pick % len(books.secrets)])
        self.count_success()

    def knock(self, books: Books, key_id: str) -> None:
        """Every instance is of one mind whether this key opens."""
        if key_id not in books.secrets:
            return
        for number in range(INSTANCES):
            request = Request(
                books.handle, books.secrets[key_id], "GET", "/v1/revocations/srl/keys"
            )
            answer = self.service.send(request, How(instance=number))
            assert answer is not None
            opened = answer.status_code == 200
            assert opened == books.is_live(key_id, self.clock())
            assert opened or answer.json()["error"]["code"] == "invalid_api_key"


def _end_of_successor(key: Fields, now: datetime) -> str | None:
    if key["expires_at"] is None:
        return None
    return text(now + (moment(key["expires_at"]) - moment(key["created_at"])))


def _is_active(record: Fields) -> bool:
    return bool(record["status"] == "active")
