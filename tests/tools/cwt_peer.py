"""The library `cwt` as a peer, in an environment of its own (`.tools/cose`).

    python tests/tools/cwt_peer.py make|read < request.json > answer.json

`make` signs the claims of a request under the seed in it; `read` verifies a warrant under the
public key in it, and answers header and claims. Bytes are hexadecimal.
"""

import json
import sys
from typing import Any

import cbor2
from cwt import COSE, COSEKey
from cwt.enums import COSEHeaders


def _key(material: dict[str, str]) -> Any:
    raw = {-2: bytes.fromhex(material["public_key"])}
    if "seed" in material:
        raw[-4] = bytes.fromhex(material["seed"])
    return COSEKey.new({1: 1, 3: -8, -1: 6, 2: bytes.fromhex(material["kid"])} | raw)


def make(request: dict[str, Any]) -> dict[str, Any]:
    """A COSE_Sign1 that the library signs."""
    claims = {int(name): _value(each) for name, each in request["claims"].items()}
    key = _key(request)
    protected = {
        COSEHeaders.ALG: -8,
        COSEHeaders.CTY: 61,
        COSEHeaders.KID: bytes.fromhex(request["kid"]),
    }
    payload = cbor2.dumps(claims, canonical=True)
    message = COSE.new().encode_and_sign(payload, key, protected=protected)
    return {"warrant": message.hex()}


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Header and claims of a warrant, once the library has verified it."""
    protected, unprotected, payload = COSE.new().decode_with_headers(
        bytes.fromhex(request["warrant"]), _key(request)
    )
    claims = payload if isinstance(payload, dict) else cbor2.loads(payload)
    return {
        "protected": {str(int(name)): _shown(each) for name, each in protected.items()},
        "unprotected": {str(int(name)): _shown(each) for name, each in unprotected.items()},
        "claims": {str(name): _shown(each) for name, each in claims.items()},
    }


def _value(shown: Any) -> Any:
    return bytes.fromhex(shown["bytes"]) if isinstance(shown, dict) else shown


def _shown(value: Any) -> Any:
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


if __name__ == "__main__":
    json.dump({"make": make, "read": read}[sys.argv[1]](json.load(sys.stdin)), sys.stdout)
