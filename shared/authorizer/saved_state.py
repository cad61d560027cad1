"""Saved state of a client, which prevents rollback across restarts."""

import base64
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from . import files
from .formats import wire
from .formats.following import TrustState

_FILE: Final = "floor.json"
_FORMAT: Final = 1
_OTHERS_WRITE: Final = 0o022

_Stamp = tuple[int, int, int]


class _ForeignSavedState(Exception):
    """The saved state was written by a client in another language. The message is its name."""


class SavedStateCorrupt(Exception):
    """The saved state cannot be used. The message states the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The feed position that a client has reached, and the data to restore its state.

    `trust` is the current trust document with its pin. `issued_at` is the time of the newest feed
    head. `signer` is the public key that verified the head, or None if the position comes from the
    trust document. `answered_at` is the time when the service confirmed the head, in seconds since
    the epoch. `origin` and `latest` are encoded responses. Together with the base of the hash
    `base`, they restore the state. All three are None if the state cannot be restored.
    """

    trust: TrustState
    sequence: int
    chain: bytes
    issued_at: datetime
    answered_at: float
    signer: bytes | None = None
    base: bytes | None = None
    origin: bytes | None = None
    latest: bytes | None = None

    @property
    def age(self) -> tuple[int, int, datetime]:
        """Sort key of two saved states of one feed: the newer state is larger.

        A newer trust document may lead back to a lower sequence (TRUST-14).
        """
        return self.trust.version, self.sequence, self.issued_at


class StateStore(Protocol):
    """Persists the client state that prevents rollback.

    Saved state survives a power loss. Each method raises `OSError` or `SavedStateCorrupt`.
    """

    def load(self) -> SavedState | None:
        """Return the last saved state, or None if none was ever saved."""

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is missing."""

    def save_base(self, data: bytes) -> None:
        """Save a base, at least until the next saved state does not name it."""

    def save(self, saved_state: SavedState) -> None:
        """Replace the saved state atomically, unless the existing one is newer."""


class MemoryStateStore:
    """Loses the state at a restart. For tests and tools, not for authorizers."""

    def __init__(self) -> None:
        self._saved: SavedState | None = None
        self._base: bytes | None = None

    def load(self) -> SavedState | None:
        """Return the last state saved in this object."""
        return self._saved

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the last saved base if it has this hash."""
        is_it = self._base and hashlib.sha256(self._base).digest() == sha256
        return self._base if is_it else None

    def save_base(self, data: bytes) -> None:
        """Keep one base."""
        self._base = data

    def save(self, saved_state: SavedState) -> None:
        """Keep `saved_state` for the lifetime of this object."""
        self._saved = saved_state


class FileStateStore:
    """Saves the state in a folder, in files that only this user can read.

    Several processes of one authorizer may share a folder. The newest saved state remains. Each
    tenant needs a separate folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        # Stamps of the file as this object last wrote it, which avoids a read, and as it was at
        # `load`.
        self._written_stamp: _Stamp | None = None
        self._loaded_stamp: _Stamp | None = None

    def load(self) -> SavedState | None:
        """Return the last saved state, or None if the folder has none."""
        self._loaded_stamp = _stamp(self._file)
        return self._read_saved_state()

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is missing or damaged."""
        try:
            data = self._base(sha256).read_bytes()
        except FileNotFoundError:
            return None
        return data if hashlib.sha256(data).digest() == sha256 else None

    def save_base(self, data: bytes) -> None:
        """Write a base to a file that is named by its hash."""
        with files.lock_folder(self.folder):
            files.replace(self._base(hashlib.sha256(data).digest()), data)

    def save(self, saved_state: SavedState) -> None:
        """Replace the saved state, and remove old bases and temporary files."""
        with files.lock_folder(self.folder):
            if (stamp := _stamp(self._file)) != self._written_stamp:
                stored = self._read_saved_state()
                # The two trust documents have different trust roots.
                if stored and stored.trust.pins.isdisjoint(saved_state.trust.pins):
                    if stamp != self._loaded_stamp:
                        raise SavedStateCorrupt(
                            "a client with another trust_pin uses the folder: restart this client"
                        )
                elif stored and stored.age > saved_state.age:
                    return
            files.replace(self._file, _encode(saved_state))
            self._written_stamp = _stamp(self._file)
            current_base = self._base(saved_state.base) if saved_state.base else None
            # Only the holder of the lock creates temporary files, and it has renamed its own.
            for path in (*self.folder.glob("base-*.cbor"), *self.folder.glob(files.TEMPORARY)):
                if path != current_base:
                    path.unlink(missing_ok=True)

    def _read_saved_state(self) -> SavedState | None:
        path = self._file
        try:
            with path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS_WRITE:
                    raise ValueError("others can write to it")
                return _decode(file.read())
        except FileNotFoundError:
            return None
        except _ForeignSavedState as error:
            raise SavedStateCorrupt(
                f"{path} was saved by the {error} client: use a separate folder for each client"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise SavedStateCorrupt(
                f"{path} is damaged ({error}). Stop the client, remove the folder {self.folder}, "
                "and start the client again."
            ) from None

    @property
    def _file(self) -> Path:
        return self.folder / _FILE

    def _base(self, sha256: bytes) -> Path:
        return self.folder / f"base-{sha256.hex()}.cbor"


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _encode(saved_state: SavedState) -> bytes:
    document = {
        "format": _FORMAT,
        "tenant": saved_state.trust.tenant_id,
        "sequence": saved_state.sequence,
        "chain": saved_state.chain.hex(),
        "issued_at": wire.text(saved_state.issued_at),
        "answered_at": saved_state.answered_at,
        "signer": saved_state.signer.hex() if saved_state.signer else None,
        "base": saved_state.base.hex() if saved_state.base else None,
        "origin": _text(saved_state.origin),
        "latest": _text(saved_state.latest),
        "trust": saved_state.trust.to_json(),
    }
    data = json.dumps(document, indent=1).encode()
    # The hash detects damage.
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _decode(data: bytes) -> SavedState:
    """Parse the output of `_encode`. Raises `KeyError`, `TypeError` or `ValueError`."""
    sha256, _, content = data.partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != sha256:
        raise ValueError("its hash is wrong")
    document = json.loads(content)
    if "client" in document:
        raise _ForeignSavedState(str(document["client"])[:20])
    if document["format"] != _FORMAT:
        raise ValueError("another version of this program wrote it")
    signer = document["signer"]
    return SavedState(
        TrustState.from_json(document["tenant"], document["trust"]),
        document["sequence"],
        bytes.fromhex(document["chain"]),
        wire.moment(document, "issued_at"),
        document["answered_at"],
        bytes.fromhex(signer) if signer else None,
        bytes.fromhex(document["base"]) if document["base"] else None,
        _bytes(document["origin"]),
        _bytes(document["latest"]),
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
