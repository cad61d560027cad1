"""Grants: which claims of an identity provider give which role (IDENTITY-2)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from shared.model.items import Value

GRANTS_MAX: Final = 50
CONDITIONS_MAX: Final = 5
VALUE_MAX: Final = 255

_ANY: Final = "*"
# Issuers that many companies share. One of these claims says whose token it is; the text before a
# `*` must contain it whole.
_SHARED: Final[Mapping[str, Mapping[str, re.Pattern[str]]]] = {
    "https://token.actions.githubusercontent.com": {
        "repository_id": re.compile("[0-9]+"),
        "repository_owner_id": re.compile("[0-9]+"),
        "sub": re.compile("repo:[^/*]+/.*"),
    },
    "https://gitlab.com": {
        "project_id": re.compile("[0-9]+"),
        "namespace_id": re.compile("[0-9]+"),
        "sub": re.compile("project_path:[^/*]+/.*"),
    },
    "https://accounts.google.com": {
        "sub": re.compile("[^*]+"),
        "email": re.compile("[^*]+"),
        "hd": re.compile("[^*]+"),
    },
}


@dataclass(frozen=True, slots=True)
class Grant:
    """The name of a role for those whose claims match all conditions of `when`.

    `service_account` is the name of the account that a program calls as; people have None.
    """

    when: Mapping[str, str]
    role: str
    service_account: str | None = None

    @classmethod
    def of(cls, stored: Mapping[str, Value]) -> Self:
        """Return the grant that `stored` gives."""
        when, account = stored["when"], stored.get("service_account")
        conditions = when.items() if isinstance(when, dict) else ()
        texts = {name: str(value) for name, value in conditions}
        return cls(texts, str(stored["role"]), None if account is None else str(account))

    @property
    def stored(self) -> dict[str, Value]:
        """The grant as a value of an item."""
        named: dict[str, Value] = {"when": dict(self.when), "role": self.role}
        return named | ({"service_account": self.service_account} if self.service_account else {})

    def matches(self, claims: Mapping[str, object]) -> bool:
        """Return whether all conditions hold. A claim that is absent matches nothing."""
        # A grant without a condition is refused when it is made, and would match everybody here.
        return bool(self.when) and all(
            _holds(wanted, claims.get(name)) for name, wanted in self.when.items()
        )

    def names_owner(self, issuer: str) -> bool:
        """Return whether a token of another customer of a shared issuer cannot match."""
        owners = _SHARED.get(issuer.rstrip("/"))
        return owners is None or any(
            name in self.when and pattern.fullmatch(self.when[name])
            for name, pattern in owners.items()
        )


def first(grants: Iterable[Grant], claims: Mapping[str, object]) -> Grant | None:
    """Return the first grant that matches, or None."""
    return next((each for each in grants if each.matches(claims)), None)


def owners_of(issuer: str) -> tuple[str, ...]:
    """Return the claims that can name the owner at an issuer that others use too; else none."""
    return tuple(_SHARED.get(issuer.rstrip("/"), ()))


def _holds(wanted: str, claim: object) -> bool:
    """Return whether a claim is `wanted`, or a list that contains it.

    `*` at the end of `wanted` stands for any text. Numbers and flags equal no text.
    """
    if isinstance(claim, list):
        return any(_is_text(wanted, each) for each in claim)
    return _is_text(wanted, claim)


def _is_text(wanted: str, claim: object) -> bool:
    if not isinstance(claim, str):
        return False
    return claim.startswith(wanted[:-1]) if wanted.endswith(_ANY) else claim == wanted
