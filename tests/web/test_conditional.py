"""Conditional requests for the Signed Revocation List (SRL-16, SRL-18)."""

from typing import Any

import pytest

from tests.kit.api import Tenant
from tests.kit.conditions import HELD, OTHERS, condition

SRL, SIGNED = "/v1/revocations/srl", "/v1/revocations/srl/signed"


def read(tenant: Tenant, path: str = SIGNED, **headers: str) -> Any:
    answer = tenant.authorizer.get(path, headers=headers)
    assert answer.status_code == 200
    return answer


def regenerate(tenant: Tenant) -> None:
    assert tenant.admin.post(f"{SRL}/regenerate").status_code == 200


def test_the_validator_is_strong_and_private(tenant: Tenant) -> None:
    """The answer has a strong ETag, and may be kept by its caller alone, asking each time."""
    answer = read(tenant)
    etag = answer.headers["etag"]
    assert etag.startswith('"')
    assert etag.endswith('"')
    assert len(etag) > 2 + 32
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["content-type"] == "application/json"
    assert read(tenant).headers["etag"] == etag


def test_the_validator_follows_the_content(tenant: Tenant) -> None:
    """SRL-16: Every list has its own strong ETag, even if no identifier changed."""
    etags = {read(tenant).headers["etag"]}
    for _ in range(3):
        regenerate(tenant)
        etags.add(read(tenant).headers["etag"])
    assert len(etags) == 4


@pytest.mark.parametrize("path", [SRL, SIGNED])
@pytest.mark.parametrize("form", HELD)
def test_a_list_that_is_held_is_not_sent(standing: Tenant, path: str, form: str) -> None:
    """SRL-16, API-23: `If-None-Match` with the current validator gets 304 without a body."""
    full = read(standing, path)
    answer = standing.authorizer.get(path, headers=condition(form, full.headers["etag"]))
    assert (answer.status_code, answer.content) == (304, b"")
    for name in ("etag", "cache-control"):
        assert answer.headers[name] == full.headers[name]
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("form", OTHERS)
def test_any_other_list_is_sent(standing: Tenant, form: str) -> None:
    """If-None-Match with anything else is answered with the list."""
    etag = read(standing).headers["etag"]
    assert read(standing, **condition(form, etag)).headers["etag"] == etag


@pytest.mark.parametrize(
    "path",
    [
        "/v1/revocations/feed",
        "/v1/revocations/feed/base/1",
        "/v1/revocations/srl/status",
        "/v1/authorizers/summary",
        "/v1/trust",
    ],
)
def test_a_proxy_that_compresses_changes_no_tag(standing: Tenant, path: str) -> None:
    """F1740a: Each endpoint with tags answers 304 to its tag with the suffix of a coding."""
    etag = standing.admin.get(path).headers["etag"]
    for form in HELD:
        answer = standing.admin.get(path, headers=condition(form, etag))
        assert (answer.status_code, answer.content) == (304, b""), form
