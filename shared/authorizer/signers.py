"""Which list signers a client accepts: the pinned ones, and those that statements lead to."""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from . import ed25519
from .statements import Form, Statement, follow


@dataclass(frozen=True, slots=True)
class Signers:
    """The list signers that a client has met, as raw public keys of 32 bytes.

    `current` signed the newest head. `statements` are all that lead to it. `revoked` are all that
    the service ever reported as revoked.
    """

    current: bytes | None = None
    statements: tuple[Form, ...] = ()
    revoked: frozenset[bytes] = frozenset()

    @property
    def superseded(self) -> frozenset[bytes]:
        """The signers before the current one, which sign no new head."""
        return frozenset(Statement.opened(each).previous for each in self.statements)


@dataclass(frozen=True, slots=True)
class Reported:
    """What `GET /v1/revocations/srl/keys` says: statements, and the raw keys that are revoked."""

    statements: tuple[Form, ...] = ()
    revoked: frozenset[bytes] = frozenset()
    cursor: str | None = None

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return the content of a page of the response. Raises `ValueError` if it has none."""
        try:
            page = json.loads(body)
            keys = page["keys"]
            statements = tuple(each["statement"] for each in keys if each["statement"] is not None)
            revoked = [each["public_key"] for each in keys if each["status"] == "revoked"]
            cursor = page.get("cursor")
            if not isinstance(cursor, str | None):
                raise TypeError("cursor is not a text")
            return cls(statements, frozenset(map(_public_key, revoked)), cursor)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise ValueError("not a response of GET /v1/revocations/srl/keys") from None

    def joined(self, page: Self) -> Self:
        """Return this with the next page."""
        revoked = self.revoked | page.revoked
        return replace(page, statements=self.statements + page.statements, revoked=revoked)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom a client believes: the `pinned` keys of one tenant, and what it has learned since.

    `reported` are statements of the service that have not led to a head yet.
    """

    tenant: str
    pinned: frozenset[bytes]
    signers: Signers = field(default_factory=Signers)
    reported: tuple[Form, ...] = ()

    def believed(self) -> frozenset[bytes]:
        """Return all keys that ever could sign, but those that are revoked."""
        forms = [form for _, form in self._opened()]
        return frozenset(follow(self.pinned, forms, revoked=self.signers.revoked))

    def accepted(self) -> frozenset[bytes]:
        """Return the keys that may sign the next head: none that is older than the current one."""
        numbers = {each.public_key: each.number for each, _ in self._opened()}
        current = numbers.get(self.signers.current or b"", 0)
        older = {key for key, number in numbers.items() if number < current}
        return self.believed() - self.signers.superseded - older

    def with_report(self, reported: Reported) -> Self:
        """Return this with what the service reported. A revoked key stays revoked."""
        revoked = self.signers.revoked | reported.revoked
        signers = replace(self.signers, revoked=revoked)
        return replace(self, signers=signers, reported=reported.statements)

    def with_current(self, key: bytes) -> Self:
        """Return this with `key` as the signer of the newest head."""
        if key == self.signers.current:
            return self
        signers = replace(self.signers, current=key, statements=tuple(self._leading_to(key)))
        return replace(self, signers=signers)

    def _leading_to(self, key: bytes) -> list[Form]:
        """Return the statements about `key` and about the believed keys before it."""
        believed, found, left = self.believed(), [], {key}
        # Numbers rise along a chain, so in this order each follows those that depend on it.
        for statement, form in sorted(self._opened(), key=lambda each: -each[0].number):
            if statement.public_key in left and statement.previous in believed - {key}:
                left.add(statement.previous)
                found.append(form)
        return found

    def _opened(self) -> list[tuple[Statement, Form]]:
        opened = {}
        for form in (*self.signers.statements, *self.reported):
            try:
                statement = Statement.opened(form)
            except (KeyError, TypeError, ValueError):
                continue
            if statement.tenant_id == self.tenant:
                opened[statement] = form
        return list(opened.items())


def public_keys(given: Iterable[bytes | str]) -> frozenset[bytes]:
    """Return raw public keys, each given raw or in base64.

    Raises `ValueError` if there is none, or if one is not a safe Ed25519 key.
    """
    if isinstance(given, bytes | str):
        raise TypeError("public_keys must be a list of keys")
    keys = frozenset(map(_public_key, given))
    if not keys:
        raise ValueError("public_keys must be one Ed25519 public key or more, each of 32 bytes")
    return keys


def _public_key(given: bytes | str) -> bytes:
    key = given if isinstance(given, bytes) else base64.b64decode(given, validate=True)
    if not ed25519.is_safe(key):
        raise ValueError("a public key must be one of Ed25519, of 32 bytes")
    return key
