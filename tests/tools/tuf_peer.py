"""python-tuf as a peer that decides about chains of roots, in an environment of its own.

    python tests/tools/tuf_peer.py < request.json > answer.json

A request has chains; each has the document from which the client begins, and the documents of an
answer. Each document becomes TUF's metadata of a root: it is encoded and signed anew, by TUF's
rules, with the same keys. Each answer is the version of the last root that `TrustedMetadataSet`
accepts, and whether it has expired; null if it refuses one.
"""

import json
import sys
from datetime import datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner, Signature
from tuf.api import exceptions
from tuf.api.metadata import Metadata, Role, Root, Targets
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType

# TUF's roots have no gaps in their numbers, since it publishes each. Ours have: a document that
# changes no root is left out. So a document has the number of its place in TUF's chain.
_FIRST = 1000


@cache
def _signer(number: int) -> CryptoSigner:
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def _metadata(made: dict[str, Any], version: int) -> bytes:
    expires = datetime.fromisoformat(made["expires_at"])
    if made["is_foreign"]:
        # TUF's roots name no tenant; nearest to a foreign document is metadata of another role.
        other = Metadata(Targets(version=version, expires=expires))
        return bytes(_signed(other, made).to_bytes())
    root = Root(version=version, expires=expires)
    for role in ("timestamp", "snapshot", "targets"):
        root.add_key(_signer(250).public_key, role)
    root.roles["root"] = Role([], made["threshold"])
    for number in made["roots"]:
        root.add_key(_signer(number).public_key, "root")
    return bytes(_signed(Metadata(root), made).to_bytes())


def _signed(metadata: Metadata[Any], made: dict[str, Any]) -> Metadata[Any]:
    for number in made["signers"]:
        metadata.sign(_signer(number), append=True)
    for number in made["forged"]:
        keyid = _signer(number).public_key.keyid
        metadata.signatures[keyid] = Signature(keyid, "00" * 64)
    return metadata


def _decided(chain: dict[str, Any]) -> dict[str, Any] | None:
    current, place = chain["start"], _FIRST
    try:
        trusted = TrustedMetadataSet(_metadata(current, place), EnvelopeType.METADATA)
        for number, made in enumerate(chain["documents"], 1):
            is_last = number == len(chain["documents"])
            # A foreign document is refused wherever it is.
            if made["version"] > current["version"] or made["is_foreign"]:
                place, current = place + 1, made
                trusted.update_root(_metadata(made, place))
            elif made["version"] == current["version"] and _content(made) != _content(current):
                trusted.update_root(_metadata(made, place))
            elif made["version"] < current["version"] and is_last:
                trusted.update_root(_metadata(made, place - 1))
            # Of the others TUF's client asks for none: it has them.
    except exceptions.RepositoryError:
        return None
    return {"version": current["version"], "is_expired": _is_expired(trusted, chain["now"])}


def _content(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name not in {"signers", "forged"}}


def _is_expired(trusted: TrustedMetadataSet, now: str) -> bool:
    trusted.reference_time = datetime.fromisoformat(now)
    try:
        trusted.update_timestamp(b"")
    except exceptions.ExpiredMetadataError:
        return True
    except exceptions.RepositoryError:
        return False
    raise AssertionError("no timestamp was given")


def main() -> None:
    """Answer the request on standard input."""
    json.dump([_decided(each) for each in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
