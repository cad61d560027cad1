"""The file in which a verifier stores what it accepted last (docs/srl.md)."""

import base64
import json
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from infra import private_files
from shared.authorizer import files
from shared.model import strict_json
from shared.model.srl.verification import public_key_bytes
from shared.model.srl.verifier import Seen

_MEMBERS = {"version", "sha256", "signer", "statements", "revoked"}


def locked(path: Path) -> AbstractContextManager[None]:
    """Keep out other verifiers with this state until the block ends. Raises `OSError`."""
    # The folder is locked, because the file itself is replaced.
    return files.locked(path.parent)


def load(path: Path) -> Seen | None:
    """Return what was accepted last, or None if there is no file.

    Raises `OSError`, `InvalidSettings` if others can write to it, `ValueError` if it is damaged.
    """
    private_files.check_file(path)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return _seen(strict_json.parse(text))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"is damaged, or is not a state of a verifier ({error}); to start again, delete it and "
            "give --min-version the last version that you accepted"
        ) from None


def save(path: Path, seen: Seen) -> None:
    """Replace the file in one step, within `locked`. Raises `OSError`."""
    document = {
        "version": seen.version,
        "sha256": seen.sha256,
        "signer": base64.b64encode(seen.signer).decode(),
        "statements": [dict(each) for each in seen.statements],
        "revoked": sorted(base64.b64encode(each).decode() for each in seen.revoked),
    }
    files.replace(path, json.dumps(document, indent=1).encode())


def _seen(document: Any) -> Seen:
    if set(document) != _MEMBERS:
        raise ValueError(f"its members are {', '.join(sorted(_MEMBERS))}")
    version, sha256 = document["version"], document["sha256"]
    if type(version) is not int or version < 1:
        raise ValueError("version is a positive integer")
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError("sha256 has 64 hexadecimal digits")
    statements = document["statements"]
    if not all(isinstance(each, dict) for each in statements):
        raise ValueError("statements are objects")
    revoked = frozenset(map(public_key_bytes, document["revoked"]))
    signer = public_key_bytes(document["signer"])
    return Seen(version, sha256, signer, tuple(statements), revoked)
