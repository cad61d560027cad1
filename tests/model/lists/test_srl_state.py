"""The signed state of a list: whose it is, and what is not believed."""

import base64
from dataclasses import replace
from datetime import UTC, datetime

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.errors import DataCorrupt, InvalidSrl
from shared.model import seeds
from shared.model.lists import content as srl_state
from shared.model.lists import signers as srl_signers
from shared.model.lists.content import Payload, SrlState, sign
from shared.model.lists.signers import SrlSigner
from shared.model.lists.tombstones import Tombstone, Tombstones, TombstoneStatus
from shared.model.lists.verification import verify
from shared.model.signing_keys import KeyStatus
from tests.model.signing_key import KEY

_SEED = b"\x07" * 32
_PUBLIC = Ed25519PrivateKey.from_private_bytes(_SEED).public_key().public_bytes_raw()
_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
_TENANT = "svc_tnt_a"


_STATE = SrlState(
    _TENANT,
    7,
    _NOW,
    {"svc_wrt_a": "2026-12-01T00:00:00Z"},
    ("svc_key_a", "svc_key_b#2"),
    (
        SrlSigner(
            "svc_key_s",
            _TENANT,
            "AA==",
            srl_signers.SrlSignerStatus.RETIRED,
            _NOW,
            sealed_seed=None,
        ),
    ),
    Tombstones(
        changes=3,
        api_keys=(Tombstone("svc_ak_a", TombstoneStatus.REVOKED, _NOW, "ab" * 32),),
        accounts=(Tombstone("svc_sa_a", TombstoneStatus.DISABLED),),
        keys=(replace(KEY, status=KeyStatus.SUSPENDED, sealed_seed=None),),
    ),
    41,
)


def _opened(blob: bytes, *, tenant_id: str = _TENANT, version: int = 7) -> SrlState:
    return SrlState.verify_and_decode(
        blob, public_key=_PUBLIC, tenant_id=tenant_id, version=version
    )


def _signed(signed: bytes) -> bytes:
    """Any content, under a signature that holds."""
    return base64.b64decode(seeds.sign(signed, seed=_SEED)) + signed


def test_a_state_comes_back_as_it_was_signed() -> None:
    """All its parts, tombstones of every kind among them, in the same bytes each time."""
    assert _opened(_STATE.sign(seed=_SEED)) == _STATE
    assert _STATE.sign(seed=_SEED) == _STATE.sign(seed=_SEED)


def _altered(place: int) -> bytes:
    blob = bytearray(_STATE.sign(seed=_SEED))
    blob[place] ^= 1
    return bytes(blob)


@pytest.mark.parametrize(
    "blob",
    [
        *map(_altered, (0, 63, 64, 90, -1)),
        _STATE.sign(seed=b"\x08" * 32),
        *(b"", b"{}", b'{"expiries":{},"signers":[]}', b"x" * 64),
    ],
)
def test_a_state_that_no_signer_signed_is_not_believed(blob: bytes) -> None:
    """OPS-8, F49a, F49b: An altered state, or one that another key signed, is not believed."""
    with pytest.raises(DataCorrupt, match="not signed by a signer"):
        _opened(blob)


@pytest.mark.parametrize(("tenant_id", "version"), [("svc_tnt_b", 7), (_TENANT, 8), (_TENANT, 6)])
def test_the_state_of_another_list_is_not_believed(tenant_id: str, version: int) -> None:
    """F49c: A stored list state of another tenant or version is not believed."""
    with pytest.raises(DataCorrupt, match="another SRL"):
        _opened(_STATE.sign(seed=_SEED), tenant_id=tenant_id, version=version)


_MEMBERS = srl_state.read_unverified_members(_STATE.sign(seed=_SEED), srl_state.PREFIX)


@pytest.mark.parametrize(
    "encoded",
    [
        *(cbor2.dumps(_MEMBERS)[:-1], cbor2.dumps(7), cbor2.dumps({})),
        *(
            cbor2.dumps(_MEMBERS | {name: value})
            for name, value in (
                *(("IssuedAt", "soon"), ("Signers", 7), ("SrlSigners", [7])),
                *(("Tombstones", {}), ("Tombstones", 7)),
                ("Tombstones", _STATE.tombstones.members() | {"Keys": [7]}),
                ("Tombstones", _STATE.tombstones.members() | {"ApiKeys": [{}]}),
            )
        ),
    ],
)
def test_a_signed_state_that_makes_no_sense_is_corrupt(encoded: bytes) -> None:
    """Even with a valid signature, content that is malformed or cut off is one error."""
    with pytest.raises(DataCorrupt, match="malformed"):
        _opened(_signed(srl_state.PREFIX + encoded))


def test_no_state_passes_for_a_list_and_no_list_for_a_state() -> None:
    """One key signs both: the prefix keeps them apart."""
    blob = _STATE.sign(seed=_SEED)
    signature, encoded = (base64.b64encode(part).decode() for part in (blob[:64], blob[64:]))
    body = f'{{"payload":{{}},"srl":{{"Payload":"{encoded}","Signature":"{signature}"}}}}'
    with pytest.raises(InvalidSrl, match="CBOR"):
        verify(body.encode(), public_key=_PUBLIC, now=_NOW)
    payload = Payload(7, _NOW, _NOW.replace(hour=13), [])
    assert sign(payload, seed=_SEED)
    with pytest.raises(DataCorrupt, match="in a folder for other content"):
        _opened(_signed(cbor2.dumps(payload.members())))
