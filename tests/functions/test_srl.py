"""The Signed Revocation List over HTTP (SRL-1 to SRL-19)."""

import base64
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.kit.api import Tenant
from tests.kit.worlds import Clock

SRL, SIGNED = "/v1/revocations/srl", "/v1/revocations/srl/signed"
KEYS = f"{SRL}/keys"
START = "2026-11-21T12:00:00Z"


def read(tenant: Tenant, path: str = SIGNED, **headers: str) -> Any:
    answer = tenant.authorizer.get(path, headers=headers)
    assert answer.status_code == 200
    return answer


def regenerate(tenant: Tenant) -> Any:
    answer = tenant.admin.post(f"{SRL}/regenerate")
    assert answer.status_code == 200, answer.text
    return answer.json()


def signers(tenant: Tenant) -> Any:
    return tenant.read_only.get(KEYS).json()["keys"]


def public_bytes(signer: Any) -> bytes:
    return base64.b64decode(signer["public_key"], validate=True)


def signed(answer: Any) -> tuple[bytes, bytes]:
    """The signed bytes and the signature, from padded base64 of the standard alphabet."""
    srl = answer.json()["srl"]
    decoded = [base64.b64decode(srl[name], validate=True) for name in ("Payload", "Signature")]
    for name, value in zip(("Payload", "Signature"), decoded, strict=True):
        assert base64.b64encode(value).decode() == srl[name]
    return decoded[0], decoded[1]


# --- content ---


def test_a_tenant_begins_with_an_empty_list(tenant: Tenant) -> None:
    """SRL-6: A new tenant has a published list of version 1 without identifiers."""
    assert read(tenant).json()["payload"] == {
        "Version": 1,
        "IssuedAt": START,
        "ExpiresAt": "2026-11-21T13:00:00Z",
        "RevokedIDs": [],
    }


def test_both_paths_are_one_resource(tenant: Tenant) -> None:
    """SRL-1: Both paths of the signed list return the same, with the members of the contract."""
    tenant.revoke("svc_wrt_a")
    regenerate(tenant)
    one, other = read(tenant, SRL), read(tenant, SIGNED)
    assert one.content == other.content
    for name in ("etag", "cache-control", "content-type"):
        assert one.headers[name] == other.headers[name]
    document = one.json()
    assert [list(document), list(document["srl"])] == [["payload", "srl"], ["Payload", "Signature"]]
    kinds = {name: type(value) for name, value in document["payload"].items()}
    assert list(kinds.items()) == [
        ("Version", int), ("IssuedAt", str), ("ExpiresAt", str), ("RevokedIDs", list)
    ]  # fmt: skip
    assert document["payload"]["RevokedIDs"] == ["svc_wrt_a"]


def test_the_signed_content_is_the_shown_one(tenant: Tenant) -> None:
    """SRL-2: `payload` shows exactly the content of the signed `Payload`, in deterministic CBOR."""
    for name in ("svc_wrt_b", "svc_wrt_a"):
        tenant.revoke(name)
    regenerate(tenant)
    answer = read(tenant)
    payload, _ = signed(answer)
    shown = answer.json()["payload"]
    assert cbor2.loads(payload) == shown
    assert list(cbor2.loads(payload)) == ["Version", "IssuedAt", "ExpiresAt", "RevokedIDs"]
    # A map of four, first its shortest key: by hand, so that no library vouches for itself.
    text = b"".join(b"\x74" + shown[name].encode() for name in ("IssuedAt",))
    assert payload == (
        b"\xa4\x67Version\x02\x68IssuedAt" + text
        + b"\x69ExpiresAt\x74" + shown["ExpiresAt"].encode()
        + b"\x6aRevokedIDs\x82\x69svc_wrt_a\x69svc_wrt_b"
    )  # fmt: skip


def test_identifiers_are_sorted_bytewise(tenant: Tenant) -> None:
    """SRL-2: `RevokedIDs` is sorted by bytes and contains each identifier once."""
    names = [f"svc_wrt_{name}" for name in ("b", "B", "_", "-", "a0", "a", "9")]
    for name in [*names, "svc_wrt_a"]:
        body = {"warrant_id": name, "reason": "r"}
        assert tenant.admin.post("/v1/revocations", json=body).status_code in {200, 201}
    regenerate(tenant)
    listed = read(tenant).json()["payload"]["RevokedIDs"]
    assert listed == sorted(names, key=str.encode)


def test_the_list_has_the_tenants_own_warrants_only(tenant: Tenant, other_tenant: Tenant) -> None:
    """F12, S2: Each tenant has its own list signer and a list of its own warrants only."""
    other_tenant.revoke("svc_wrt_foreign")
    tenant.revoke("svc_wrt_own")
    regenerate(tenant)
    regenerate(other_tenant)
    assert read(tenant).json()["payload"]["RevokedIDs"] == ["svc_wrt_own"]
    assert read(other_tenant).json()["payload"]["RevokedIDs"] == ["svc_wrt_foreign"]
    assert signers(tenant)[0]["public_key"] != signers(other_tenant)[0]["public_key"]


# --- signature ---


def test_the_signature_verifies_with_openssl(tenant: Tenant, tmp_path: Path) -> None:
    """SRL-3, S5: OpenSSL verifies the signature of a list and refuses an altered list."""
    payload, signature = signed(read(tenant))
    key = Ed25519PublicKey.from_public_bytes(public_bytes(signers(tenant)[0]))
    files = {
        "key.pem": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "payload": payload,
        "altered": payload[:-1] + b"\x81",
        "signature": signature,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name, expected in (("payload", True), ("altered", False)):
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin"]
        command += ["-in", name, "-sigfile", "signature"]
        result = subprocess.run(
            command, cwd=tmp_path, capture_output=True, check=False, timeout=120
        )
        assert (result.returncode == 0) is expected, result


# --- regeneration ---


def test_a_regeneration_raises_the_version_by_one(tenant: Tenant, clock: Clock) -> None:
    """SRL-13: Regenerate always publishes a list whose version is higher by one."""
    for number in range(2, 6):
        clock.advance(minutes=1)
        moment = clock()
        assert regenerate(tenant) == {
            "version": number,
            "issued_at": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            "expires_at": f"{moment + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
            "revocation_count": 0,
        }
        assert read(tenant).json()["payload"]["Version"] == number


def test_nothing_is_listed_before_a_regeneration(tenant: Tenant) -> None:
    """REVOKE-7, SRL-10: A revocation reaches the list with the next publication and not before."""
    record_id = tenant.revoke("svc_wrt_a")
    assert read(tenant).json()["payload"]["RevokedIDs"] == []
    assert regenerate(tenant)["revocation_count"] == 1
    assert tenant.admin.delete(f"/v1/revocations/{record_id}").status_code == 204
    assert read(tenant).json()["payload"]["RevokedIDs"] == ["svc_wrt_a"]
    assert regenerate(tenant)["revocation_count"] == 0
    assert read(tenant).json()["payload"]["RevokedIDs"] == []
