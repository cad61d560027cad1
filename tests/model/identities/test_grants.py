"""Which claims give which role (IDENTITY-2)."""

from typing import Any

import pytest

from shared.model.callers import Scope
from shared.model.identities import providers
from shared.model.identities.providers import Grant

GITHUB = "https://token.actions.githubusercontent.com"


@pytest.mark.parametrize(
    ("when", "claims", "matches"),
    [
        ({"groups": "security"}, {"groups": ["staff", "security"]}, True),
        ({"groups": "security"}, {"groups": "security"}, True),
        ({"groups": "security"}, {"groups": ["security-guests"]}, False),
        ({"groups": "security"}, {"groups": {"security": True}}, False),
        ({"groups": "security"}, {}, False),
        ({"sub": "repo:acme/*"}, {"sub": "repo:acme/api:ref:main"}, True),
        ({"sub": "repo:acme/*"}, {"sub": "repo:acme"}, False),
        ({"sub": "repo:*:ref:main"}, {"sub": "repo:acme/api:ref:main"}, False),
        ({"sub": "*"}, {"sub": "anybody"}, True),
        ({"sub": "*"}, {}, False),
        ({"sub": "*"}, {"sub": None}, False),
        ({"level": "1"}, {"level": 1}, False),
        ({"is_admin": "True"}, {"is_admin": True}, False),
        ({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, True),
        ({"a": "1", "b": "2"}, {"a": "1"}, False),
        ({}, {"sub": "anybody"}, False),
    ],
)
def test_a_grant_matches_whole_texts(
    when: dict[str, str], claims: dict[str, Any], matches: bool
) -> None:
    """IDENTITY-2, F1144a: All conditions must hold, by whole text, membership or a final `*`."""
    assert Grant(when, Scope.ADMIN).matches(claims) is matches


def test_the_first_match_counts() -> None:
    """IDENTITY-2, F1144b: Of several grants that match, the first one counts."""
    both = [Grant({"sub": "a"}, Scope.REVOKER), Grant({"sub": "*"}, Scope.ADMIN)]
    assert providers.first(both, {"sub": "a"}) is both[0]
    assert providers.first(both, {"sub": "b"}) is both[1]
    assert providers.first(both[:1], {"sub": "b"}) is None


@pytest.mark.parametrize(
    ("issuer", "when", "is_named"),
    [
        (GITHUB, {"repository_id": "1234"}, True),
        (GITHUB, {"sub": "repo:acme/*"}, True),
        (f"{GITHUB}/", {"sub": "repo:acme/*"}, True),
        (GITHUB, {"sub": "repo:acme*"}, False),
        (GITHUB, {"sub": "*"}, False),
        (GITHUB, {"repository_id": "12*"}, False),
        (GITHUB, {"ref": "refs/heads/main"}, False),
        ("https://gitlab.com", {"sub": "project_path:acme/*"}, True),
        ("https://gitlab.com", {"ref": "main"}, False),
        ("https://accounts.google.com", {"sub": "1155"}, True),
        ("https://accounts.google.com", {"email": "*"}, False),
        ("https://sso.acme.com", {"sub": "*"}, True),
    ],
)
def test_a_shared_issuer_needs_the_owner(issuer: str, when: dict[str, str], is_named: bool) -> None:
    """IDENTITY-2, F1144c: At an issuer that others use, a grant names whose tokens it takes."""
    assert Grant(when, Scope.ADMIN).names_owner(issuer) is is_named
