"""Warrants between this project and `cwt`, a COSE library that shares no code with it."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.authorizer.formats.warrants import Claims, verify
from shared.model import warrant_format
from tests.authorizer.formats.peers import KEY, PUBLIC_KEY, SEED, TENANT, peer

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLAIMS = Claims(TENANT, "svc_wrt_a", NOW, NOW + timedelta(hours=1), b"may pay up to 100")
# What version 3.3.0 of the library made of these claims.
MADE_BY_PEER = (
    "d284582da3012703183d0458247376635f6b65795f30316d37797a6d68673031347363766d71667a6362336d"
    "666d672331a05854a50178227376635f746e745f30316d37797a6d68673031347363766d71667a6362336d66"
    "6d62041a6b0195d0061a6b0187c007497376635f7772745f613a00010000516d61792070617920757020746f"
    "203130305840918aa6072b41b4fd5195347734d17dcc556964f21dc7246d9acfb038bf408f9ef0f1a7757dc7"
    "60d5d55a5ef232e7768e32ca7a9a4784115b8b5882b66872f80b"
)


def make(claims: Claims) -> str:
    """A warrant that says these claims, made by the library."""
    end = {} if claims.expires_at is None else {"4": int(claims.expires_at.timestamp())}
    stated = {
        "1": claims.tenant_id,
        **end,
        "6": int(claims.issued_at.timestamp()),
        "7": {"bytes": claims.warrant_id.encode().hex()},
        "-65537": {"bytes": claims.payload.hex()},
    }
    return str(peer("make", seed=SEED.hex(), claims=stated)["warrant"])


def test_a_warrant_that_the_library_made() -> None:
    """F42: our verifier accepts it, and our own is the same, byte for byte."""
    theirs = bytes.fromhex(MADE_BY_PEER)
    assert verify(theirs, public_keys=[PUBLIC_KEY], tenant_id=TENANT, now=NOW) == CLAIMS
    ours = warrant_format.sign(CLAIMS, key_id=KEY, key_version=1, seed=SEED)
    assert ours.encode() == theirs


@pytest.mark.slow
@pytest.mark.parametrize("payload", [b"", b"may pay up to 100", bytes(range(256)) * 256])
@pytest.mark.parametrize("expires", [True, False])
def test_the_library_accepts_ours_and_we_accept_its(payload: bytes, expires: bool) -> None:
    """F42, S4: An independent COSE library accepts our warrants, and we accept its warrants."""
    claims = Claims(TENANT, "svc_wrt_a", NOW, CLAIMS.expires_at if expires else None, payload)
    ours = warrant_format.sign(claims, key_id=KEY, key_version=1, seed=SEED).encode()
    read = peer("read", warrant=ours.hex())
    kid = {"bytes": f"{KEY}#1".encode().hex()}
    assert read["protected"] == {"1": -8, "3": 61, "4": kid}
    assert read["unprotected"] == {}
    assert read["claims"]["1"] == TENANT
    assert read["claims"]["7"] == {"bytes": b"svc_wrt_a".hex()}
    assert read["claims"]["-65537"] == {"bytes": payload.hex()}
    assert set(read["claims"]) == {"1", "6", "7", "-65537", *(["4"] if expires else [])}
    theirs = bytes.fromhex(make(claims))
    assert verify(theirs, public_keys=[PUBLIC_KEY], tenant_id=TENANT, now=NOW) == claims


@pytest.mark.slow
def test_the_library_refuses_what_we_refuse() -> None:
    """F42: an altered warrant of ours is none to the library either."""
    ours = warrant_format.sign(CLAIMS, key_id=KEY, key_version=1, seed=SEED).encode()
    altered = ours.replace(b"up to 100", b"up to 900")
    with pytest.raises(AssertionError, match=r"VerifyError|[Ff]ailed to verify"):
        peer("read", warrant=altered.hex())


@pytest.mark.slow
def test_the_recorded_warrant_is_the_librarys() -> None:
    """What the fast test holds against us is what the library still makes."""
    assert make(CLAIMS) == MADE_BY_PEER
