"""Secrets that anybody found (APIKEY-14): whoever presents one ends it."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from functions.api_keys.leaks import PATH, LeakReports
from shared.model.api_keys import new_secret
from shared.model.identities import sessions
from shared.ports import Ports
from shared.web.gate import PublicMiddleware
from shared.web.strangers import AnonymousLimiter
from tests.functions.signing import refusal
from tests.kit.api import Instance, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.log_lines import lines, metrics
from tests.kit.reads import reading

URL = "https://github.com/acme/shop/blob/4f2a/deploy.yml#L7"


@dataclass
class Place:
    """A tenant, and the function that takes reports."""

    tenant: Tenant
    http: Instance

    def post(self, body: object) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self.http.request("POST", PATH, content=content, headers=headers)


def served(ports: Ports) -> Instance:
    limiter = AnonymousLimiter(ports.now)
    app = LeakReports(lambda: ports)
    return Instance(partial(PublicMiddleware(limiter, tuple, {}).answer, app), ports)


@pytest.fixture
def place(tenant: Tenant) -> Place:
    return Place(tenant, served(tenant.ports))


def test_a_leaked_key_ends(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """APIKEY-14, F2302a: A secret that anybody presents is refused from the next request on.

    The last admin key is, too. The audit log names the place, and an event and a metric tell.
    """
    tenant = place.tenant
    assert place.post({"secret": tenant.admin.secret, "url": URL}).status_code == 200
    refused = tenant.admin.get("/v1/whoami")
    assert refusal(refused)[:2] == (401, "invalid_api_key")
    revoked, leaked = audit_entries(tenant)[-2:]
    assert (revoked["action"], leaked["action"]) == ("api_key.revoke", "api_key.leaked")
    assert revoked["resource_id"] == leaked["resource_id"] == tenant.admin.key_id
    assert leaked["actor"] == "system+leaks@acme.svc"
    assert leaked["source_ip"] == "203.0.113.1"
    details = leaked["details"]
    assert isinstance(details, dict)
    assert (details["url"], details["name"]) == (URL, "admin")
    assert str(tenant.admin.secret) not in str(audit_entries(tenant))
    (line,) = lines(caplog, "a leaked API key was reported and is revoked")
    assert metrics(line)["KeysLeaked"] == (1, "Count")


def test_white_space_keeps_no_key(place: Place) -> None:
    """APIKEY-14, F2302h: A secret ends with the line feed of its file around it, too."""
    key = place.tenant.authorizer
    assert place.post({"secret": f" {key.secret}\r\n"}).status_code == 200
    assert refusal(key.get("/v1/whoami"))[:2] == (401, "invalid_api_key")


def test_a_report_of_github_ends_what_it_names(place: Place) -> None:
    """APIKEY-14, F2302b: An array of `token`, `type` and `url` ends each of them that exists."""
    tenant = place.tenant
    secrets = [tenant.read_only.secret, new_secret(), tenant.authorizer.secret]
    report = [
        {"token": each, "type": "rescind_api_key", "url": URL, "source": "content"}
        for each in secrets
    ]
    assert place.post(report).status_code == 200
    for each in (tenant.read_only, tenant.authorizer):
        assert each.get("/v1/whoami").status_code == 401
    assert tenant.admin.get("/v1/whoami").status_code == 200
    actions = [each["action"] for each in audit_entries(tenant)[-4:]]
    assert actions == 2 * ["api_key.revoke", "api_key.leaked"]


def test_no_answer_says_whether_a_secret_exists(place: Place) -> None:
    """APIKEY-14, F2302c: All secrets, known or not, get one answer after as many reads.

    A second report of an ended one changes nothing.
    """
    tenant = place.tenant
    ended = tenant.read_only.secret
    secrets = [new_secret(), "x", "svc_ä", sessions.new_secret(), ended, ended]
    seen = set()
    for each in secrets:
        with reading(tenant.ports) as (ports, reads):
            answer = Place(tenant, served(ports)).post([{"token": each}])
        names = {*answer.headers} - {"x-request-id"}
        seen.add((answer.status_code, answer.text, *sorted(names), reads.trips, reads.items))
    assert len(seen) == 1
    assert next(iter(seen))[-2:] == (2, 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'"svc_x"',
        {},
        {"secret": 1},
        {"secret": "x", "url": 1},
        [{"token": "x"}, {}],
        [{"secret": "x"}],
        ["x"],
        [],
        [{"token": "x"}] * 101,
        {"secret": "x" * 513},
    ],
)
def test_a_malformed_report_is_refused(place: Place, body: object) -> None:
    """APIKEY-14, F2302d: A report that is malformed, or has more than 100 secrets, ends nothing."""
    answer = place.post(body)
    assert refusal(answer)[:2] == (400, "invalid_request")


def test_a_report_is_bounded(place: Place) -> None:
    """APIKEY-14, F2302e: A body has at most 64 KiB, and the method is POST."""
    assert place.post(b" " * (64 * 1024 + 1)).status_code == 413
    answer = place.http.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_each_secret_takes_a_token_of_the_address(place: Place) -> None:
    """APIKEY-14, AUTH-9, F2302f: An address reports as many secrets as it may make requests."""
    report = [{"token": f"{each}"} for each in range(100)]
    answers = [place.post(report).status_code for _ in range(25)]
    assert answers == [200] * answers.index(429) + [429] * (25 - answers.index(429))
    assert answers.index(429) == 20


def test_a_long_address_is_cut(place: Place) -> None:
    """APIKEY-14, F2302g: Of an address that names the place, the audit log has 2,048 characters."""
    secret = place.tenant.read_only.secret
    assert place.post({"secret": secret, "url": "u" * 5000}).status_code == 200
    details = audit_entries(place.tenant)[-1]["details"]
    assert isinstance(details, dict)
    assert details["url"] == "u" * 2048
