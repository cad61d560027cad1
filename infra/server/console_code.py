"""The one-time code that signs in to the console on one machine (docs/adr/25).

The folder of the data has one file for it, which has the hash of the code and never the code. The
folder is locked while the file is read and replaced, so that several processes agree.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from infra import data_folder
from shared.errors import InvalidSettings

FILE: Final = "console.json"
LIFETIME_SECONDS: Final = 300
TRIES_MAX: Final = 5

_CODE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class _KeptCodes:
    """The content of the file: the address of the console, and a code for a tenant or none.

    `expires_at` is in seconds since the epoch. `tries` counts the wrong codes.
    """

    address: str
    tenant: str = ""
    digest: str = ""
    expires_at: float = 0.0
    tries: int = 0

    @property
    def is_usable(self) -> bool:
        # A clock that was set back does not lengthen the life of a code.
        return bool(self.digest) and 0 < self.expires_at - time.time() <= LIFETIME_SECONDS


def announce(folder: Path, address: str) -> None:
    """Keep the address of the console of the running server, such as http://127.0.0.1:8080.

    A code of an earlier run cannot be used any more.
    """
    with _locked(folder):
        _write(folder, _KeptCodes(address))


def withdraw(folder: Path) -> None:
    """Remove the file: the running server takes no code."""
    (folder / FILE).unlink(missing_ok=True)


def address(folder: Path) -> str:
    """Return the address of the console. Raises `InvalidSettings` if there is none."""
    kept = _read(folder)
    if kept is None:
        raise InvalidSettings(
            f"No server takes codes for {folder}: none was started, or it is read-only, serves no "
            "console, or does not listen on 127.0.0.1 or ::1."
        )
    return kept.address


def link(folder: Path, tenant: str) -> str:
    """Return the address of the console with a new code, which signs in to `tenant` once.

    The code before cannot be used any more. Raises `InvalidSettings` as `address` does.
    """
    code = secrets.token_urlsafe(_CODE_BYTES)
    with _locked(folder):
        found = address(folder)
        _write(folder, _KeptCodes(found, tenant, _digest(code), time.time() + LIFETIME_SECONDS))
    return f"{found}/#code={code}"


def spend(folder: Path, code: str) -> str | None:
    """Return the tenant to which the code signs in, and end the code; None if it is not accepted.

    A code is not accepted if it is wrong, has been used, is too old, or was replaced. The last
    wrong one of `TRIES_MAX` ends the right code as well.
    """
    with _locked(folder):
        kept = _read(folder)
        if kept is None or not kept.digest:
            return None
        is_right = hmac.compare_digest(kept.digest, _digest(code)) and kept.is_usable
        if is_right or not kept.is_usable or kept.tries + 1 >= TRIES_MAX:
            _write(folder, _KeptCodes(kept.address))
        else:
            _write(folder, replace(kept, tries=kept.tries + 1))
        return kept.tenant if is_right else None


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _read(folder: Path) -> _KeptCodes | None:
    try:
        return _KeptCodes(**json.loads((folder / FILE).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _write(folder: Path, kept: _KeptCodes) -> None:
    new = folder / f"{FILE}.new"
    new.unlink(missing_ok=True)
    data_folder.write_private(new, json.dumps(asdict(kept)).encode())
    new.replace(folder / FILE)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
