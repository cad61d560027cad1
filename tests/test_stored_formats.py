"""What is stored is read by later editions: these values were written once, and never change.

Both sides of most tests are the code of now. Here one side is fixed, so that a change of a stored
format fails, and is made by a migration or not at all.
"""

from pathlib import Path

import pytest

from shared.adapters.local.file_sealer import FileSealer
from shared.errors import DataCorrupt
from shared.model import revocations, seeds
from shared.model.seeds import KeyPurpose

TENANT, KEY = "svc_tnt_a", "svc_key_a"
CONTEXT = {"tenant": TENANT, "key": KEY, "purpose": "warrant", "version": "2"}
SEAL = bytes.fromhex(
    "01f4db23abd299c9bf206fc7204de9b6fc87da44f9e39d84d4a5fc024290c969"
    "03440667008069c9ff25ecefae4b5b723736263657818d09fae81bda6e"
)


@pytest.fixture
def keys(tmp_path: Path) -> FileSealer:
    path = tmp_path / "master.key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    return FileSealer(path)


def test_the_context_of_a_seal() -> None:
    """F95: a seal is bound to tenant, key, purpose and version, under these names."""
    assert seeds.seal_context(TENANT, KEY, purpose=KeyPurpose.WARRANT, version=2) == CONTEXT


def test_a_seal_of_an_earlier_edition_opens(keys: FileSealer) -> None:
    """F95a: A seed that an earlier edition sealed can still be opened."""
    context = seeds.seal_context(TENANT, KEY, purpose=KeyPurpose.WARRANT, version=2)
    assert keys.unseal(SEAL, context=context) == b"\x07" * 32


@pytest.mark.parametrize(
    "context",
    [
        seeds.seal_context("svc_tnt_b", KEY, purpose=KeyPurpose.WARRANT, version=2),
        seeds.seal_context(TENANT, "svc_key_b", purpose=KeyPurpose.WARRANT, version=2),
        seeds.seal_context(TENANT, KEY, purpose=KeyPurpose.SRL, version=2),
        seeds.seal_context(TENANT, KEY, purpose=KeyPurpose.WARRANT, version=1),
    ],
    ids=["tenant", "key", "purpose", "version"],
)
def test_a_seal_opens_for_nothing_else(keys: FileSealer, context: dict[str, str]) -> None:
    """F96a: A sealed seed does not open for another tenant, key, purpose or version."""
    with pytest.raises(DataCorrupt):
        keys.unseal(SEAL, context=context)


def test_where_a_revoked_warrant_is_stored() -> None:
    """F95: a warrant is looked for in the shard in which an earlier edition stored it."""
    shards = {
        each: revocations.shard_of("t", each).pk
        for each in ("svc_wrt_a", "svc_wrt_b", "svc_wrt_c", "svc_wrt_laptop-17")
    }
    assert shards == {
        "svc_wrt_a": "t#revoked#08",
        "svc_wrt_b": "t#revoked#08",
        "svc_wrt_c": "t#revoked#0b",
        "svc_wrt_laptop-17": "t#revoked#04",
    }
