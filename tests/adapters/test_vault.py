"""Seals under Vault, where Vault fails. The contract runs on OpenBao (tests/engines)."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.adapters.vault.sealer import VaultSealer
from shared.errors import DataCorrupt, InvalidSettings, Unavailable
from tests.kit.receivers import Receiver, Script, answer, plainly

CONTEXT = {"tenant": "t1", "key": "svc_key_1"}
SEAL = b"vault:v1:" + base64.b64encode(bytes(32))


def says(status: int, **body: object) -> Script:
    """An answer as Vault gives it."""
    return answer(status, json.dumps(body).encode())


SEALED = says(200, data={"ciphertext": SEAL.decode(), "plaintext": "c2VjcmV0"})
PASSING: dict[str, Script] = {
    "sealed": says(503, errors=["Vault is sealed"]),
    "broken": says(500, errors=["internal error"]),
    "too many requests": says(429, errors=["request path is rate limited"]),
    "behind a proxy": answer(502, b"<html>Bad Gateway</html>"),
}
OUTAGES = PASSING | {
    "token expired": says(403, errors=["permission denied"]),
    "no such mount": says(404, errors=["no handler for route a-mount/encrypt/a-key"]),
    "no such key": says(400, errors=["encryption key not found"]),
    "no reason": answer(400, b"[]"),
    "not JSON": answer(200, b"<html>Welcome</html>"),
    "cut": answer(200, b'{"data": {'),
    "empty": says(200),
    "not base64": says(200, data={"plaintext": "?"}),
}


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("a-token\n", encoding="ascii")
    return file


@pytest.fixture
def sealer_at(token: Path) -> Callable[[Receiver], VaultSealer]:
    def made(receiver: Receiver) -> VaultSealer:
        address = f"http://127.0.0.1:{receiver.port}"
        return VaultSealer("a-mount/a-key", {"VAULT_ADDR": address, "VAULT_TOKEN_FILE": str(token)})

    return made


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_is_unavailable(sealer_at: Callable[[Receiver], VaultSealer], name: str) -> None:
    """F26: a key in Vault that cannot be used now says nothing about the seal."""
    with plainly(OUTAGES[name]) as receiver, pytest.raises(Unavailable) as caught:
        sealer_at(receiver).unseal(SEAL, context=CONTEXT)
    assert type(caught.value) is Unavailable
    assert "a-key" not in str(caught.value)
    assert len(receiver.requests) == (3 if name in PASSING else 1)


@pytest.mark.parametrize("name", PASSING)
def test_a_short_outage_is_not_noticed(
    sealer_at: Callable[[Receiver], VaultSealer], name: str
) -> None:
    """F22: what succeeds at a further try is a success."""
    with plainly(PASSING[name], SEALED, PASSING[name], SEALED) as receiver:
        sealer = sealer_at(receiver)
        assert sealer.seal(b"secret", context=CONTEXT) == SEAL
        assert sealer.unseal(SEAL, context=CONTEXT) == b"secret"


@pytest.mark.parametrize(
    "said",
    ["cipher: message authentication failed", "invalid ciphertext: version is too new"],
)
def test_a_seal_that_is_not_ours_is_corrupt(
    sealer_at: Callable[[Receiver], VaultSealer], said: str
) -> None:
    """F10: altered bytes, another context or another key do not pass for an outage."""
    with plainly(says(400, errors=[said])) as receiver, pytest.raises(DataCorrupt):
        sealer_at(receiver).unseal(SEAL, context=CONTEXT)


def test_a_renewed_token_is_used_at_once(
    sealer_at: Callable[[Receiver], VaultSealer], token: Path
) -> None:
    """Each call sends the token that the file has now; without one, nothing is sent."""
    with plainly(SEALED) as receiver:
        sealer = sealer_at(receiver)
        sealer.seal(b"secret", context=CONTEXT)
        token.write_text("another\n", encoding="ascii")
        sealer.seal(b"secret", context=CONTEXT)
        token.unlink()
        with pytest.raises(Unavailable):
            sealer.seal(b"secret", context=CONTEXT)
    assert [each.headers["x-vault-token"] for each in receiver.requests] == ["a-token", "another"]


def test_a_redirect_gets_no_token(sealer_at: Callable[[Receiver], VaultSealer]) -> None:
    """The token goes to no other address than the one that was set."""
    with plainly(SEALED) as other:
        away = answer(307, b"{}", f"Location: http://127.0.0.1:{other.port}/")
        with plainly(away) as receiver, pytest.raises(Unavailable):
            sealer_at(receiver).seal(b"secret", context=CONTEXT)
    assert other.connections == 0


@pytest.mark.parametrize(
    ("location", "settings", "said"),
    [
        ("transit", {}, "vault:<mount>/<key>"),
        ("transit/../key", {}, "vault:<mount>/<key>"),
        ("transit/key", {"VAULT_ADDR": ""}, "VAULT_ADDR is not set"),
        ("transit/key", {"VAULT_ADDR": "vault:8200"}, "VAULT_ADDR is not set"),
        ("transit/key", {"VAULT_ADDR": "http://vault:8200"}, "must begin with https://"),
        ("transit/key", {"VAULT_TOKEN_FILE": "/nowhere"}, "No such file"),
        ("transit/key", {"VAULT_TOKEN_FILE": "/dev/null"}, "has no token"),
        ("transit/key", {"VAULT_CACERT": "/nowhere"}, "VAULT_CACERT cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    token: Path, location: str, settings: dict[str, str], said: str
) -> None:
    """What is missing or not valid is named before anything is sent."""
    valid = {"VAULT_ADDR": "https://vault:8200", "VAULT_TOKEN_FILE": str(token)}
    with pytest.raises(InvalidSettings, match=said):
        VaultSealer(location, valid | settings)


def test_a_namespace_is_sent(token: Path) -> None:
    """`VAULT_NAMESPACE` means what it means to Vault's own client."""
    with plainly(SEALED) as receiver:
        settings = {
            "VAULT_ADDR": f"http://127.0.0.1:{receiver.port}/",
            "VAULT_TOKEN_FILE": str(token),
            "VAULT_NAMESPACE": "team/a",
        }
        VaultSealer("a/b", settings).seal(b"secret", context=CONTEXT)
    assert receiver.requests[0].line == "POST /v1/a/encrypt/b HTTP/1.1"
    assert receiver.requests[0].headers["x-vault-namespace"] == "team/a"
