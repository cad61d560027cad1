"""The state that a client keeps across restarts, so that nobody can serve it an older one."""

import base64
import hashlib
import json
import os
import stat
from collections.abc import Mapping
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
    """A floor that a client in another language wrote. The message is its name."""


class SavedStateCorrupt(Exception):
    """The floor cannot be used. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """The position in the feed that a client has reached, and the way back to it.

    `trust` is the held trust document with its pin. `issued_at` is the time of the newest head, and
    `signer` the public key that verified it; None if the position is that of the trust document.
    `answered_at` is when the service confirmed the head, in seconds since the epoch. `origin` and
    `latest` are encoded answers from which, with the base of the hash `base`, the state is
    restored. All three are None if it cannot be restored.
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
        """The order of two floors of one feed: the newer one is larger.

        A newer document may lead back to a lower sequence (TRUST-14).
        """
        return self.trust.version, self.sequence, self.issued_at


class StateStore(Protocol):
    """Where a client keeps what it must not forget.

    A loss of power loses no saved state. Each method raises `OSError` or `SavedStateCorrupt`.
    """

    def load(self) -> SavedState | None:
        """Return what was saved last, or None if nothing ever was."""

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is not there."""

    def save_base(self, data: bytes) -> None:
        """Keep a base, at least until what is saved next does not name it."""

    def save(self, saved_state: SavedState) -> None:
        """Replace what is kept in one step, unless that is newer."""


class MemoryStateStore:
    """Keeps nothing across restarts: for tests and tools, and for no authorizer."""

    def __init__(self) -> None:
        self._saved: SavedState | None = None
        self._base: bytes | None = None

    def load(self) -> SavedState | None:
        """Return what was saved last in this object."""
        return self._saved

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base that was saved last, if it has this hash."""
        is_it = self._base and hashlib.sha256(self._base).digest() == sha256
        return self._base if is_it else None

    def save_base(self, data: bytes) -> None:
        """Keep one base."""
        self._base = data

    def save(self, saved_state: SavedState) -> None:
        """Keep `saved_state`, as long as this object exists."""
        self._saved = saved_state


class FileStateStore:
    """Keeps the floor in a folder, in files that only this user can read.

    Several processes of one authorizer may share a folder: the newest floor stays. Each tenant
    needs a folder of its own.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        # The content that this object wrote, so that it need not read it again, and read at first.
        self._written: _Stamp | None = None
        self._began: _Stamp | None = None

    def load(self) -> SavedState | None:
        """Return what was saved last, or None if the folder has no floor."""
        self._began = _stamp(self._file)
        return self._read_saved_state()

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is not there or damaged."""
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
        """Replace the floor, and remove other bases and what interrupted processes left."""
        with files.lock_folder(self.folder):
            if (stamp := _stamp(self._file)) != self._written:
                held = self._read_saved_state()
                # The documents of both do not follow from one root.
                if held and held.trust.pins.isdisjoint(saved_state.trust.pins):
                    if stamp != self._began:
                        raise SavedStateCorrupt(
                            "a client with another trust_root uses it: start again"
                        )
                elif held and held.age > saved_state.age:
                    return
            files.replace(self._file, _encode(saved_state))
            self._written = _stamp(self._file)
            kept = self._base(saved_state.base) if saved_state.base else None
            # Only the holder of the lock has temporary files, and it has renamed them.
            for path in (*self.folder.glob("base-*.cbor"), *self.folder.glob(files.TEMPORARY)):
                if path != kept:
                    path.unlink(missing_ok=True)

    def _read_saved_state(self) -> SavedState | None:
        path = self._file
        try:
            return _decode(_read(path))
        except FileNotFoundError:
            return None
        except _ForeignSavedState as error:
            raise SavedStateCorrupt(
                f"{path} is the floor of the {error} client: give this client a folder of its own"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise SavedStateCorrupt(
                f"{path} is damaged ({error}), so this client does not know what it accepted last. "
                f"Stop it, remove the folder {self.folder}, and start it again."
            ) from None

    @property
    def _file(self) -> Path:
        return self.folder / _FILE

    def _base(self, sha256: bytes) -> Path:
        return self.folder / f"base-{sha256.hex()}.cbor"


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS_WRITE:
            raise ValueError("others can write to it")
        return file.read()


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


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
    return _add_checksum(document)


def _decode(data: bytes) -> SavedState:
    """Return what `_encode` had. Raises `KeyError`, `TypeError` or `ValueError` if it is not."""
    document = _strip_checksum(data)
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


def _add_checksum(document: Mapping[str, Any]) -> bytes:
    """Return a document with its hash, by which damage is noticed."""
    data = json.dumps(document, indent=1).encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _strip_checksum(data: bytes) -> Any:
    sha256, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != sha256:
        raise ValueError("its hash is another one")
    document = json.loads(rest)
    if "client" in document:
        raise _ForeignSavedState(str(document["client"])[:20])
    if document["format"] != _FORMAT:
        raise ValueError("another version of this program wrote it")
    return document


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
