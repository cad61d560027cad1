"""The state that a client keeps across restarts, so that nobody can serve it an older one."""

import base64
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from . import files
from .formats import wire
from .formats.following import TrustState

_FILE: Final = "floor.json"
_PINS: Final = "pins.json"
_FORMAT: Final = 1
_OTHERS_WRITE: Final = 0o022


_T = TypeVar("_T")
_Stamp = tuple[int, int, int]


class _OfAnotherClient(Exception):
    """A floor that a client in another language wrote. The message is its name."""


class DamagedFloor(Exception):
    """The floor cannot be used. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The position in the feed of `tenant` that a client has reached, and the way back to it.

    `issued_at` is the time of the newest head, and `signer` the public key that verified it; None
    if the position is that of the trust document. `answered_at` is when the service confirmed the
    head, in seconds since the epoch. `origin` and `latest` are encoded answers from which, with the
    base of the hash `base`, the state is restored. All three are None if it cannot be restored.
    `trust` is the held trust document with its pin. Without one, the release before wrote this:
    `revoked` are the list signers that it knew to be stolen.
    """

    tenant: str
    sequence: int
    chain: bytes
    issued_at: datetime
    answered_at: float
    signer: bytes | None = None
    base: bytes | None = None
    origin: bytes | None = None
    latest: bytes | None = None
    trust: TrustState | None = None
    revoked: frozenset[bytes] = frozenset()

    @property
    def age(self) -> tuple[int, int, datetime]:
        """The order of two floors of one feed: the newer one is larger.

        A newer document may lead back to a lower sequence (TRUST-14).
        """
        return self.trust.version if self.trust else 0, self.sequence, self.issued_at


class Floor(Protocol):
    """Where a client keeps what it must not forget.

    A loss of power loses no saved state. Each method raises `OSError` or `DamagedFloor`.
    """

    def load(self) -> Saved | None:
        """Return what was saved last, or None if nothing ever was."""

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is not there."""

    def save_base(self, data: bytes) -> None:
        """Keep a base, at least until what is saved next does not name it."""

    def save(self, saved: Saved) -> None:
        """Replace what is kept in one step, unless that is newer."""


class MemoryFloor:
    """Keeps nothing across restarts: for tests and tools, and for no authorizer."""

    def __init__(self) -> None:
        self._saved: Saved | None = None
        self._base: bytes | None = None

    def load(self) -> Saved | None:
        """Return what was saved last in this object."""
        return self._saved

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base that was saved last, if it has this hash."""
        is_it = self._base and hashlib.sha256(self._base).digest() == sha256
        return self._base if is_it else None

    def save_base(self, data: bytes) -> None:
        """Keep one base."""
        self._base = data

    def save(self, saved: Saved) -> None:
        """Keep `saved`, as long as this object exists."""
        self._saved = saved


class FileFloor:
    """Keeps the floor in a folder, in files that only this user can read.

    Several processes of one authorizer may share a folder: the newest floor stays. Each tenant
    needs a folder of its own.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        # The content that this object wrote, so that it need not read it again, and read at first.
        self._written: _Stamp | None = None
        self._began: _Stamp | None = None

    def load(self) -> Saved | None:
        """Return what was saved last, or None if the folder has no floor."""
        self._began = _stamp(self._file)
        return self._saved()

    def pins(self) -> frozenset[bytes] | None:
        """Return the list signers that `repin` of the release before set, or None."""
        return self._loaded(self.folder / _PINS, _decoded_pins)

    def load_base(self, sha256: bytes) -> bytes | None:
        """Return the base with this hash, or None if it is not there or damaged."""
        try:
            data = self._base(sha256).read_bytes()
        except FileNotFoundError:
            return None
        return data if hashlib.sha256(data).digest() == sha256 else None

    def save_base(self, data: bytes) -> None:
        """Write a base to a file that is named by its hash."""
        with self._locked():
            files.replace(self._base(hashlib.sha256(data).digest()), data)

    def save(self, saved: Saved) -> None:
        """Replace the floor, and remove the bases that it does not name."""
        with self._locked():
            if (stamp := _stamp(self._file)) != self._written:
                held = self._saved()
                if held and _has_other_root(held, saved):
                    if stamp != self._began:
                        raise DamagedFloor("a client with another trust_root uses it: start again")
                elif held and held.age > saved.age:
                    return
            files.replace(self._file, _encoded(saved))
            self._written = _stamp(self._file)
            self._remove_bases(but=saved.base)

    def _saved(self) -> Saved | None:
        return self._loaded(self._file, _decoded)

    @property
    def _file(self) -> Path:
        return self.folder / _FILE

    def _base(self, sha256: bytes) -> Path:
        return self.folder / f"base-{sha256.hex()}.cbor"

    def _loaded(self, path: Path, decode: Callable[[bytes], _T]) -> _T | None:
        try:
            return decode(_read(path))
        except FileNotFoundError:
            return None
        except _OfAnotherClient as error:
            raise DamagedFloor(
                f"{path} is the floor of the {error} client: give this client a folder of its own"
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFloor(
                f"{path} is damaged ({error}), so this client does not know what it accepted last. "
                f"Stop it, remove the folder {self.folder}, and start it again with trust_root."
            ) from None

    def _remove_bases(self, *, but: bytes | None) -> None:
        kept = self._base(but) if but else None
        for path in self.folder.glob("base-*.cbor"):
            if path != kept:
                path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep out the other processes with this folder, which is made if it is not there."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.locked(self.folder):
            yield


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


def _has_other_root(held: Saved, saved: Saved) -> bool:
    """Return whether the documents of both do not follow from one root."""
    pins = [
        {each.trust.pin, each.trust.held.document.roots.pin}
        for each in (held, saved)
        if each.trust and each.trust.held
    ]
    return len(pins) > 1 and pins[0].isdisjoint(pins[1])


def _decoded_pins(data: bytes) -> frozenset[bytes]:
    return frozenset(map(bytes.fromhex, _opened(data)["public_keys"]))


def _encoded(saved: Saved) -> bytes:
    document = {
        "format": _FORMAT,
        "tenant": saved.tenant,
        "sequence": saved.sequence,
        "chain": saved.chain.hex(),
        "issued_at": wire.text(saved.issued_at),
        "answered_at": saved.answered_at,
        "signer": saved.signer.hex() if saved.signer else None,
        # The release before reads these two.
        "statements": [],
        "revoked": sorted(each.hex() for each in saved.revoked),
        "base": saved.base.hex() if saved.base else None,
        "origin": _text(saved.origin),
        "latest": _text(saved.latest),
        "trust": saved.trust.kept() if saved.trust else None,
    }
    return _sealed(document)


def _decoded(data: bytes) -> Saved:
    """Return what `_encoded` had. Raises `KeyError`, `TypeError` or `ValueError` if it is not."""
    document = _opened(data)
    tenant, signer, trust = document["tenant"], document["signer"], document.get("trust")
    return Saved(
        tenant,
        document["sequence"],
        bytes.fromhex(document["chain"]),
        wire.moment(document, "issued_at"),
        document["answered_at"],
        bytes.fromhex(signer) if signer else None,
        bytes.fromhex(document["base"]) if document["base"] else None,
        _bytes(document["origin"]),
        _bytes(document["latest"]),
        TrustState.resumed(tenant, trust) if trust else None,
        frozenset(map(bytes.fromhex, document["revoked"])),
    )


def _sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document with its hash, by which damage is noticed."""
    data = json.dumps(document, indent=1).encode()
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _opened(data: bytes) -> Any:
    sha256, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != sha256:
        raise ValueError("its hash is another one")
    document = json.loads(rest)
    if "client" in document:
        raise _OfAnotherClient(str(document["client"])[:20])
    if document["format"] != _FORMAT:
        raise ValueError("another version of this program wrote it")
    return document


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
