"""Old lists, by their versions and by the hashes of what is signed (SRL-20)."""

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from shared.model.lists.head import HEADS_KEPT, lists_folder
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.web import stored as bodies
from tests.functions.signing import refusal
from tests.kit.api import Client, Instance, Tenant

PATH = "/v1/revocations/srl"


def get(tenant: Tenant, query: str = "", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return tenant.authorizer.get(f"{PATH}{query}", headers=named)


def publish(tenant: Tenant, *warrant_ids: str) -> Any:
    """Publish a list with these warrants too, and return the answer that serves it."""
    for warrant_id in warrant_ids:
        tenant.revoke(warrant_id)
    assert tenant.admin.post(f"{PATH}/regenerate").status_code == 200
    return get(tenant)


def sha256(answer: Any) -> str:
    """The hash of the signed bytes in an answer, as VERIFY-3 keeps it."""
    return hashlib.sha256(base64.b64decode(answer.json()["srl"]["Payload"])).hexdigest()


def test_an_old_list_is_what_it_was(tenant: Tenant) -> None:
    """SRL-20, F206a: An old list is returned byte for byte, by its version and by its hash."""
    lists = [publish(tenant), *(publish(tenant, f"svc_wrt_{name}") for name in "abc")]
    assert [len(each.json()["payload"]["RevokedIDs"]) for each in lists] == [0, 1, 2, 3]
    for served in lists:
        version = served.json()["payload"]["Version"]
        for query in (f"?version={version}", f"/signed?sha256={sha256(served)}"):
            again = get(tenant, query)
            assert again.content == served.content
            assert again.headers["ETag"] == served.headers["ETag"]
            assert again.headers["X-SRL-Key-Id"] == served.headers["X-SRL-Key-Id"]
            assert again.headers["Cache-Control"] == "private, max-age=31536000, immutable"
            assert again.headers["Vary"] == "Accept-Encoding, Authorization"
            known = get(tenant, query, If_None_Match=served.headers["ETag"])
            assert (known.status_code, known.content) == (304, b"")
    assert get(tenant).headers["Cache-Control"] == "private, no-cache"


def test_another_tenants_list(tenant: Tenant, other_tenant: Tenant) -> None:
    """F206b: The version or the hash of another tenant's list is not found."""
    served = [publish(other_tenant) for _ in range(3)][-1]
    for query in (f"?sha256={sha256(served)}", "?version=4", f"?sha256={'0' * 64}"):
        assert refusal(get(tenant, query)) == (404, "not_found")


@pytest.mark.parametrize(
    "query",
    [
        *("?version=0", "?version=+1", "?version=01", "?version=1.0", "?version=", "?version=a"),
        *("?version=1000000000000", "?version=-1", "?sha256=", "?sha256=abc", "?older=1"),
        f"?sha256={'A' * 64}",
        f"?version=1&sha256={'0' * 64}",
        "?version=1&version=1",
    ],
)
def test_what_names_no_list(standing: Tenant, query: str) -> None:
    """SRL-20: Anything but one version, or one hash in lower case, is refused with 400."""
    assert refusal(get(standing, query)) == (400, "invalid_request")


def test_a_list_that_is_gone(tenant: Tenant, ports: Ports) -> None:
    """SRL-20, F206c: A removed list is 404, and a missing one that is in force is 503."""
    gone = publish(tenant, "svc_wrt_a")
    heads = [in_force.read_srl_head(ports, tenant.id)]
    publish(tenant, "svc_wrt_b")
    heads.append(in_force.read_srl_head(ports, tenant.id))
    _remove(ports, heads[0].blob)
    assert refusal(get(tenant, "?version=2")) == (404, "not_found")
    assert refusal(get(tenant, f"?sha256={sha256(gone)}")) == (404, "not_found")
    # The client has it already.
    assert get(tenant, "?version=2", If_None_Match=gone.headers["ETag"]).status_code == 304
    _remove(ports, heads[1].blob)
    assert refusal(get(tenant, "?version=3")) == (503, "unavailable")
    assert refusal(get(tenant)) == (503, "unavailable")
    for version in range(HEADS_KEPT):
        assert get(tenant, f"?version={version + HEADS_KEPT}").status_code == 404


def test_an_altered_list(tmp_path: Path, ports: Ports, tenant: Tenant) -> None:
    """F206d: An old list whose bytes were altered is 503 and not 404."""
    publish(tenant, "svc_wrt_a")
    path = tmp_path / "blobs" / in_force.read_srl_head(ports, tenant.id).blob
    publish(tenant)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    assert refusal(get(tenant, "?version=2")) == (503, "unavailable")


def on_lambda(tenant: Tenant) -> Client:
    """The authorizer, with an instance of the service that is called by Lambda."""
    app = tenant.authorizer.http.app

    async def called_by_lambda(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "aws.event": {}}, receive, send)

    return replace(tenant.authorizer, http=Instance(called_by_lambda))


def _remove(ports: Ports, blob: str) -> None:
    names = set(ports.blobs.names(blob.rpartition("/")[0]))
    before = blob.rpartition("/")[2].partition("-")[0]
    ports.blobs.discard(blob.rpartition("/")[0], before=f"{int(before) + 1:012d}")
    assert blob in names


def test_a_long_old_list(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """SRL-20: The redirect to a long old list is not cached, because its address expires."""
    monkeypatch.setattr(bodies, "ANSWER_MAX", 100)
    publish(tenant)
    answer = on_lambda(tenant).get(f"{PATH}?version=1")
    assert answer.status_code == 307
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert lists_folder(tenant.id) in answer.headers["Location"]
    monkeypatch.setattr(bodies, "READ_MAX", 100)
    assert get(tenant, "?version=1").json()["payload"]["Version"] == 1
