"""Seals in a real OpenBao: what its policy must allow, and what follows if it refuses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from shared.adapters.vault.sealer import VaultSealer
from shared.errors import DataCorrupt, Unavailable
from tests.engines.programs import openbao
from tests.kit.processes import ROOT
from tests.kit.waiting import soon

CONTEXT = {"tenant": "t1", "key": "svc_key_1"}

pytestmark = pytest.mark.slow


@dataclass
class Bao:
    """A running OpenBao: its address, its log, and the file with the token of the service."""

    address: str
    log: Path
    token: Path

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Call it as its owner."""
        url, headers = f"{self.address}/v1/{path}", {"X-Vault-Token": "root"}
        answer = requests.request(method, url, headers=headers, json=body, timeout=10)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def new_token(self) -> None:
        """Give the service a token with the policy of docs/security.md, and no other right."""
        page = (ROOT / "docs/security.md").read_text(encoding="utf-8")
        policy = re.search(r"```hcl\n(.*?)```", page, re.DOTALL)
        assert policy is not None
        self.call("PUT", "sys/policies/acl/rescind", policy=policy[1])
        made = self.call("POST", "auth/token/create", policies=["rescind"], no_default_policy=True)
        self.token.write_text(made["auth"]["client_token"], encoding="ascii")

    def sealer(self) -> VaultSealer:
        """What the service seals with."""
        return VaultSealer(
            "transit/rescind", {"VAULT_ADDR": self.address, "VAULT_TOKEN_FILE": str(self.token)}
        )


@pytest.fixture
def bao(tmp_path: Path) -> Iterator[Bao]:
    with openbao(tmp_path) as settings:
        made = Bao(
            settings["RESCIND_TEST_VAULT_ENDPOINT"], tmp_path / "engine.log", tmp_path / "token"
        )
        made.call("POST", "sys/mounts/transit", type="transit")
        made.call("POST", "transit/keys/rescind", type="aes256-gcm96")
        made.new_token()
        yield made


def test_the_documented_policy_suffices(bao: Bao) -> None:
    """S3: With the policy of the documents the service seals and opens, and does nothing else."""
    sealed = bao.sealer().seal(b"seed", context=CONTEXT)
    assert bao.sealer().unseal(sealed, context=CONTEXT) == b"seed"
    headers = {"X-Vault-Token": bao.token.read_text(encoding="ascii")}
    for method, path in (("GET", "transit/keys/rescind"), ("POST", "transit/encrypt/another")):
        answer = requests.request(
            method, f"{bao.address}/v1/{path}", headers=headers, json={"plaintext": ""}, timeout=10
        )
        assert answer.status_code == 403


def test_a_rotated_key_opens_old_seals(bao: Bao) -> None:
    """After a rotation of the transit key old seals open, until OpenBao is told to refuse them."""
    before = bao.sealer().seal(b"seed", context=CONTEXT)
    bao.call("POST", "transit/keys/rescind/rotate")
    after = bao.sealer().seal(b"seed", context=CONTEXT)
    assert after.startswith(b"vault:v2:")
    for each in (before, after):
        assert bao.sealer().unseal(each, context=CONTEXT) == b"seed"
    bao.call("POST", "transit/keys/rescind/config", min_decryption_version=2)
    with pytest.raises(Unavailable) as caught:
        bao.sealer().unseal(before, context=CONTEXT)
    assert not isinstance(caught.value, DataCorrupt)


def test_whoever_takes_the_key_away_damages_nothing(bao: Bao) -> None:
    """F26: While OpenBao is sealed, or refuses the token, a seal is unavailable; then it opens."""
    sealer = bao.sealer()
    sealed = sealer.seal(b"seed", context=CONTEXT)
    owners = soon(lambda: re.search(r"Unseal Key: (\S+)\n", bao.log.read_text(encoding="utf-8")))

    bao.call("PUT", "sys/seal")
    with pytest.raises(Unavailable) as while_sealed:
        sealer.unseal(sealed, context=CONTEXT)
    bao.call("PUT", "sys/unseal", key=owners[1])
    assert sealer.unseal(sealed, context=CONTEXT) == b"seed"

    bao.call("POST", "auth/token/revoke", token=bao.token.read_text(encoding="ascii"))
    with pytest.raises(Unavailable) as while_revoked:
        sealer.unseal(sealed, context=CONTEXT)
    bao.new_token()
    assert sealer.unseal(sealed, context=CONTEXT) == b"seed"
    assert {type(each.value) for each in (while_sealed, while_revoked)} == {Unavailable}
