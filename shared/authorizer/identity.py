"""The identity key of an authorizer, which signs its registrations and its reports (TRUST-10)."""

import os
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from . import files
from .formats.members import to_base64
from .formats.proofs import ProvenRegistration, ProvenReport

_FILE: Final = "identity.key"
_OTHERS: Final = 0o077


class DamagedIdentity(Exception):
    """The file of the key cannot be used. The message says why, and what to do."""


class IdentityKey:
    """Signs with one key, whose raw public key is `public_key` (32 bytes)."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Self:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    def proof(self, tenant: str, name: str, now: datetime) -> dict[str, str]:
        """Return the proof of a registration under `name`, as it is sent."""
        payload = ProvenRegistration(tenant, name, self.public_key, now).encode()
        signature = self._key.sign(ProvenRegistration.signed_part(payload))
        return {"payload": to_base64(payload), "signature": to_base64(signature)}

    def signed(self, report: ProvenReport) -> dict[str, str]:
        """Return the members of a heartbeat that have the signed report."""
        payload = report.encode()
        signature = self._key.sign(ProvenReport.signed_part(payload))
        return {"report": to_base64(payload), "signature": to_base64(signature)}


def of_folder(folder: Path) -> IdentityKey:
    """Return the identity that a folder keeps, which is made if there is none.

    Processes that share the folder have the same one. Raises `DamagedIdentity`, or `OSError` if the
    file cannot be read or made.
    """
    path = folder / _FILE
    with suppress(FileNotFoundError):
        return _read(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.locked(folder):
        # Another process may have made it meanwhile.
        with suppress(FileNotFoundError):
            return _read(path)
        key = Ed25519PrivateKey.generate()
        files.replace(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return IdentityKey(key)


def _read(path: Path) -> IdentityKey:
    with path.open("rb") as file:
        mode, data = os.fstat(file.fileno()).st_mode, file.read()
    if stat.S_IMODE(mode) & _OTHERS:
        raise DamagedIdentity(f"others can read {path}: run chmod 600 {path}")
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise DamagedIdentity(
            f"{path} is no Ed25519 key in PEM. Delete it, so that a new one is made, and let the "
            "operator of the service remove the registration of this authorizer"
        )
    return IdentityKey(key)
