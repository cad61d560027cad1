"""Which claims give which role (IDENTITY-2)."""

from typing import Any

import pytest

from shared.model.callers import Scope
from shared.model.identities import providers
from shared.model.identities.providers import RoleMapping

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
        ({"/realm_access/roles": "deploy"}, {"realm_access": {"roles": ["a", "deploy"]}}, True),
        ({"/realm_access/roles": "deploy"}, {"realm_access": {"roles": ["a"]}}, False),
        ({"/realm_access/roles": "deploy"}, {"realm_access": "deploy"}, False),
        ({"/kubernetes.io/namespace": "shop"}, {"kubernetes.io": {"namespace": "shop"}}, True),
        ({"/kubernetes.io/namespace": "shop"}, {"/kubernetes.io/namespace": "shop"}, False),
        ({"/https:~1~1sts~0a/role": "a*"}, {"https://sts~a": {"role": "abc"}}, True),
        ({"/list/1": "b"}, {"list": ["a", "b"]}, True),
        ({"/list/01": "b"}, {"list": ["a", "b"]}, False),
        ({"/list/2": "b"}, {"list": ["a", "b"]}, False),
        ({"/list/-": "b"}, {"list": ["a", "b"]}, False),
    ],
)
def test_a_grant_matches_whole_texts(
    when: dict[str, str], claims: dict[str, Any], matches: bool
) -> None:
    """IDENTITY-2, F1144a: All conditions must hold, by whole text, membership or a final `*`."""
    assert RoleMapping(when, Scope.ADMIN).matches(claims) is matches


def test_the_first_match_counts() -> None:
    """IDENTITY-2, F1144b: Of several mappings that match, the first one applies."""
    both = [RoleMapping({"sub": "a"}, Scope.REVOKER), RoleMapping({"sub": "*"}, Scope.ADMIN)]
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
        (f"{GITHUB}/acme", {"repository_id": "*"}, False),
        ("https://app.terraform.io", {"terraform_organization_id": "org-1"}, True),
        ("https://app.terraform.io", {"sub": "organization:acme:*"}, True),
        ("https://app.terraform.io", {"sub": "organization:*"}, False),
        ("https://app.terraform.io", {"terraform_run_phase": "apply"}, False),
        ("https://agent.buildkite.com", {"organization_id": "f02d6a6f"}, True),
        ("https://agent.buildkite.com", {"sub": "organization:acme:pipeline:*"}, True),
        ("https://agent.buildkite.com", {"pipeline_slug": "shop"}, False),
        ("https://sso.acme.com/realms/acme", {"azp": "deployer"}, True),
        ("https://sso.acme.com/realms/acme", {"/realm_access/roles": "deployer"}, False),
        ("https://login.microsoftonline.com/9188040d/v2.0", {"oid": "690222be"}, True),
        ("https://login.microsoftonline.com/9188040d/v2.0", {"sub": "690222be"}, False),
        ("https://oidc.eks.amazonaws.com/id/A", {"/kubernetes.io/namespace": "shop"}, True),
        ("https://oidc.eks.amazonaws.com/id/A", {"sub": "system:serviceaccount:shop:*"}, True),
        ("https://sso.acme.com", {"sub": "*"}, False),
        ("https://sso.acme.com", {"groups": "deploy"}, False),
    ],
)
def test_a_program_needs_the_owner(issuer: str, when: dict[str, str], is_named: bool) -> None:
    """IDENTITY-2, F1144c: Each grant for programs names the owner of the token."""
    family = providers.family_of(issuer)
    assert RoleMapping(when, Scope.ADMIN).names_owner(family) is is_named
