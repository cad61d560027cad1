"""The Authorization header, and what a key is worth (AUTH-1, AUTH-2)."""

import threading
import time

import pytest

from shared.model.callers import Scope
from shared.ports import Ports
from tests.kit.api import Client, Instance, Tenant, serve
from tests.kit.asgi import Answer, bearer, send
from tests.kit.endpoints import audit_entries
from tests.kit.waiting import soon
from tests.kit.worlds import Clock

PATH = "/v1/api-keys"

# What is told apart: there is no key, or there is one that does not open.
UNAUTHORIZED = {
    "missing": [],
    "empty": [""],
    "no scheme": ["{key}"],
    "other scheme": ["Basic {key}"],
    "scheme with a colon": ["Bearer: {key}"],
    "tab for space": ["Bearer\t{key}"],
    "leading space": [" Bearer {key}"],
    "leading tab": ["\tBearer {key}"],
    "no space": ["Bearer{key}"],
    "non-ASCII scheme": ["Bëarer {key}"],
}
INVALID = {
    "no key": ["Bearer"],
    "an empty key": ["Bearer "],
    "twice the same": ["Bearer {key}", "Bearer {key}"],
    "twice, the first alone valid": ["Bearer {key}", "Bearer nonsense"],
    "twice, the second alone valid": ["Bearer nonsense", "Bearer {key}"],
    "twice, the second empty": ["Bearer {key}", ""],
    "twice, another scheme first": ["Basic abc", "Bearer {key}"],
    "comma-joined headers": ["Bearer {key}, Bearer {key}"],
    "comma-joined keys": ["Bearer {key},{key}"],
    "trailing comma": ["Bearer {key},"],
    "trailing space": ["Bearer {key} "],
    "trailing tab": ["Bearer {key}\t"],
    "more words": ["Bearer {key} {key}"],
    "quoted": ['Bearer "{key}"'],
    "NUL": ["Bearer {key}\x00"],
    "non-ASCII": ["Bearer {key}é"],
    "non-ASCII only": ["Bearer svc_" + "é" * 43],
    "one character more": ["Bearer {key}A"],
    "one character less": ["Bearer {cut}"],
    "other case": ["Bearer {swapped}"],
    "padded": ["Bearer {key}="],
    "no prefix": ["Bearer {bare}"],
    "other alphabet": ["Bearer svc_" + "+/" * 21 + "A"],
    "8 KiB": ["Bearer svc_" + "A" * 8192],
}
HEADERS = [
    pytest.param(values, code, id=name)
    for code, forms in (("unauthorized", UNAUTHORIZED), ("invalid_api_key", INVALID))
    for name, values in forms.items()
]


def ask(client: Client, *headers: tuple[str, str], path: str = PATH, peer: str = "p") -> Answer:
    return send(client.http.app, "GET", path, headers=headers, peer=peer)


def filled(form: str, secret: str) -> str:
    bare = secret.removeprefix("svc_")
    return form.format(key=secret, cut=secret[:-1], swapped=f"svc_{bare.swapcase()}", bare=bare)


# --- the header ---


@pytest.mark.parametrize("form", ["Bearer {key}", "bearer {key}", "BEARER {key}", "bEaReR   {key}"])
def test_the_scheme_has_no_case(standing: Tenant, form: str) -> None:
    """AUTH-1, F85a: The Bearer scheme is read in any case, with one or more spaces after it."""
    header = ("Authorization", filled(form, str(standing.admin.secret)))
    assert ask(standing.admin, header).status_code == 200


@pytest.mark.parametrize(("values", "code"), HEADERS)
def test_any_other_form_of_the_header_is_refused(
    standing: Tenant, values: list[str], code: str
) -> None:
    """AUTH-1, F15a, S1: The service accepts a key only from exactly one Bearer header."""
    secret = str(standing.admin.secret)
    headers = [("Authorization", filled(value, secret)) for value in values]
    answer = ask(standing.admin, *headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == code
    assert answer.headers["www-authenticate"] == "Bearer"
    assert secret[5:40] not in answer.text


def test_strings_that_decode_alike_do_not_open(standing: Tenant) -> None:
    """APIKEY-2: Only the issued spelling opens, not another that decodes to the same bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    secret = str(standing.admin.secret)
    place = alphabet.index(secret[-1])
    # The last two of the 258 bits stand for nothing.
    twins = [secret[:-1] + alphabet[place - place % 4 + n] for n in range(4)]
    assert secret in twins
    statuses = {twin: standing.holding(twin).get(PATH).status_code for twin in twins}
    assert statuses == dict.fromkeys(twins, 401) | {secret: 200}


@pytest.mark.parametrize("name", ["X-Api-Key", "Proxy-Authorization", "Cookie", "access_token"])
def test_no_other_header_carries_a_key(standing: Tenant, name: str) -> None:
    """F15: a key in another header, or in the query, is no key."""
    secret = standing.admin.secret
    for answer in (
        ask(standing.admin, (name, f"Bearer {secret}")),
        ask(standing.admin, path=f"{PATH}?{name}={secret}"),
    ):
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"


FORGED = {
    "X-Forwarded-For": "198.51.100.9",
    "Forwarded": "for=198.51.100.9",
    "X-Real-IP": "198.51.100.9",
    "True-Client-IP": "198.51.100.9",
    "X-Request-Id": "forged",
    "X-Amzn-Trace-Id": "Root=forged",
    "X-User": "forged@acme.svc",
    "X-HTTP-Method-Override": "DELETE",
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_headers_prove_nothing(tenant: Tenant, name: str) -> None:
    """API-5, F15b: A caller cannot forge its address, request id or identity with headers."""
    answer = send(
        tenant.admin.http.app,
        "POST",
        "/v1/revocations/srl/regenerate",
        headers=bearer(tenant.admin.secret, (name, FORGED[name])),
        peer="192.0.2.7",
    )
    assert answer.status_code == 200
    entry = audit_entries(tenant)[-1]
    assert entry["source_ip"] == "192.0.2.7"
    assert entry["request_id"] == answer.headers["x-request-id"] != "forged"
    assert entry["actor"] == "admin@acme.svc"


def test_a_key_expires_on_the_second(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-5: A key is accepted until the second of its `expires_at` and refused from then on."""
    client = tenant.client(Scope.READ_ONLY, expires_at=clock().replace(minute=5))
    clock.advance(minutes=4, seconds=59)
    assert client.get(PATH).status_code == 200
    clock.advance(seconds=1)
    assert client.get(PATH).status_code == 401
    listed = tenant.admin.get(f"{PATH}/{client.key_id}").json()
    assert listed["status"] == "active"


# --- revocation holds at once ---


@pytest.fixture
def instances(ports: Ports) -> list[Instance]:
    return [serve(ports), serve(ports)]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_no_instance_accepts_a_revoked_key(
    tenant: Tenant, instances: list[Instance], method: str
) -> None:
    """AUTH-3, F13a: Once a key is revoked, every instance refuses the next request with it."""
    victim = tenant.client(Scope.ADMIN)
    for http in instances:
        assert Client(http, victim.secret).get(PATH).status_code == 200
    path = f"{PATH}/{victim.key_id}" + ("/revoke" if method == "POST" else "")
    answer = Client(instances[0], tenant.admin.secret).request(method, path)
    assert answer.status_code in {200, 204}
    for http in instances:
        assert Client(http, victim.secret).get(PATH).status_code == 401


def test_a_burst_ends_with_the_revocation(tenant: Tenant, instances: list[Instance]) -> None:
    """F13b, S1: No request that begins after the revocation of its key is accepted."""
    victim = tenant.client(Scope.READ_ONLY)
    seen: list[tuple[float, int]] = []
    stop = threading.Event()

    def burst(http: Instance) -> None:
        while not stop.is_set():
            began = time.monotonic()
            answer = send(http.app, "GET", PATH, headers=bearer(victim.secret))
            seen.append((began, answer.status_code))

    threads = [threading.Thread(target=burst, args=(http,)) for http in instances]
    for thread in threads:
        thread.start()
    soon(lambda: len(seen) >= 10)
    assert tenant.admin.post(f"{PATH}/{victim.key_id}/revoke").status_code == 200
    answered = time.monotonic()
    soon(lambda: sum(began > answered for began, _ in seen) >= 10)
    stop.set()
    for thread in threads:
        thread.join()
    assert {status for began, status in seen if began > answered} == {401}
    assert 200 in {status for began, status in seen if began < answered}
