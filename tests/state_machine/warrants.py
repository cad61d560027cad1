"""Warrants: sign, list what a key signed."""

import base64
from datetime import datetime

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import strategies as st

from tests.state_machine.attempts import (
    CONFLICT,
    CREATED,
    NOT_FOUND,
    SIGNERS,
    WRONG_STATE,
    Done,
    Outcome,
)
from tests.state_machine.books import Books, Fields, moment
from tests.state_machine.machine import step
from tests.state_machine.recount import by_warrant, shown, walk
from tests.state_machine.service import How, between
from tests.state_machine.signing_keys import SigningKeyRules, has_status, is_active
from tests.state_machine.strategies import HANDLE, HOW, MINUTES, PICK, WARRANT

_PAYLOAD = b"may pay up to 100"


class WarrantRules(SigningKeyRules):
    """What can be done with signing keys and with warrants."""

    @step(handle=HANDLE, how=HOW, pick=PICK, warrant_id=st.none() | WARRANT, minutes=MINUTES)
    def sign(
        self, handle: str, how: How, pick: int, warrant_id: str | None, minutes: int | None
    ) -> None:
        """Only an active, unexpired key below active ones signs, and no identifier twice."""
        books = self.books[handle]
        key_id = self.choose(books, "keys", pick, has_status("active"))
        path = f"/v1/keys/{key_id}"
        body: Fields = {"payload": base64.b64encode(_PAYLOAD).decode()}
        if warrant_id is not None:
            body["warrant_id"] = warrant_id
        if minutes is not None:
            body["expires_at"] = self.later(minutes)

        def outcome(now: datetime) -> Outcome:
            if key_id not in books.keys:
                return NOT_FOUND
            ancestors = (books.keys[each]["status"] for each in books.ancestors(key_id))
            if not is_active(books.keys[key_id], now) or {*ancestors} - {"active"}:
                return WRONG_STATE
            taken = warrant_id is not None and warrant_id in books.known_warrants()
            return CONFLICT if taken else CREATED

        def evidence() -> Fields | None:
            listed = walk(self.ask_of(books), f"{path}/warrants")
            new = [each for each in listed if each["warrant_id"] not in books.warrants]
            assert len(new) <= 1
            return new[0] | {"key_id": key_id} if new else None

        def effect(done: Done) -> None:
            signed = done.fields
            if "warrant" in signed:
                _check_warrant(books, signed, books.keys[key_id]["public_key"])
            assert signed["warrant_id"] == (warrant_id or signed["warrant_id"])
            assert (signed["key_id"], signed["key_version"]) == (key_id, books.version(key_id))
            assert signed["expires_at"] == body.get("expires_at")
            assert between(signed["signed_at"], done.span)
            books.warrants[signed["warrant_id"]] = signed
            books.enter("key.sign", key_id, done.actor)

        self.attempt(
            books,
            how,
            "POST",
            f"{path}/sign",
            outcome,
            body=body,
            scopes=SIGNERS,
            effect=effect,
            evidence=evidence,
        )

    @step(handle=HANDLE, how=HOW, pick=PICK)
    def list_warrants(self, handle: str, how: How, pick: int) -> None:
        """What a key signed, or just a superseded version of it."""
        books = self.books[handle]
        key_id = self.choose(books, "keys", pick)

        def effect(done: Done) -> None:
            expected = shown(books.signed_by(key_id))
            assert done.fields["total"] == len(expected)
            if done.fields["cursor"] is None:
                assert by_warrant(done.fields["warrants"]) == by_warrant(expected)

        self.read_of(books, how, key_id, "warrants", effect)


def _check_warrant(books: Books, signed: Fields, public_key: str) -> None:
    """By RFC 9052 and RFC 8392, with none of the service's own code."""
    assert signed["public_key"] == public_key
    protected, _, payload, signature = cbor2.loads(base64.b64decode(signed["warrant"])).value
    over = cbor2.dumps(["Signature1", protected, b"", payload])
    Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key)).verify(signature, over)
    times = {4: signed["expires_at"], 6: signed["signed_at"]}
    seconds = {claim: moment(time).timestamp() for claim, time in times.items() if time}
    named = {1: books.id, 7: signed["warrant_id"].encode(), -65537: _PAYLOAD}
    assert cbor2.loads(payload) == seconds | named
