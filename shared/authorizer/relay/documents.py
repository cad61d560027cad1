"""The pages that clients of the release before read: the list signers, and the trust bundle.

Nobody signs them, so a relay checks no more than that they are of its tenant and whole.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from .. import files
from ..answers import NoAnswer, Response, read_age, unexpected
from ..formats.members import parse_json
from ..http1 import printable
from ..transport import Transport
from ..view import Moment
from .upstream import Line

_log: Final = logging.getLogger("rescind_authorizer.relay")

# Seconds for which a document is repeated before the service is asked again.
FRESH_SECONDS: Final = 10.0
# Seconds for which a request waits for the service, if there is something older to answer with.
_PATIENCE: Final = 2.0
# Seconds between two attempts.
_RETRY: Final = 1.0

# The most bytes of a page, and of a document.
_PAGE_MAX: Final = 2 * 2**20
_BYTES_MAX: Final = 16 * 2**20
_PAGES_MAX: Final = 1000

_OK: Final = 200
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)
_NOT_MODIFIED: Final = 304


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """The body of a response, and its `ETag`."""

    body: bytes
    etag: str | None


@dataclass(frozen=True, slots=True)
class Read:
    """All pages of a document by their cursors, the first at "".

    The service confirmed them at `confirmed`. `signers` are the list signers that they name.
    """

    pages: Mapping[str, DocumentPage]
    confirmed: Moment
    signers: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A document: its path, and what its pages have to be.

    `check` returns the public keys of the list signers in the parsed pages, or raises an error.
    """

    name: str
    path: str
    check: Callable[[list[Any]], frozenset[bytes]]


def signers() -> DocumentKind:
    """Return the kind of the list signers (SIGNER-6)."""
    return DocumentKind("srl-keys", "/v1/revocations/srl/keys", _signers)


def trust_bundle(tenant: str) -> DocumentKind:
    """Return the kind of the trust bundle of this tenant (TRUST-1)."""

    def check(pages: list[Any]) -> frozenset[bytes]:
        if {each["tenant_id"] for each in pages} != {tenant}:
            raise ValueError("it is the trust bundle of another tenant")
        if len({each["revision"] for each in pages}) > 1:
            raise ValueError("its pages are of several revisions")
        return _public_keys(pages[0]["list_signers"])

    return DocumentKind("trust-bundle", "/v1/trust-bundle", check)


class Document:
    """A document that is read when somebody asks for it, and kept in a file.

    It belongs to one event loop.
    """

    def __init__(self, kind: DocumentKind, line: Line, folder: Path) -> None:
        self._kind = kind
        self._line = line
        self._file = folder / f"{kind.name}.json"
        self._read = self._loaded()
        self._task: asyncio.Task[None] | None = None
        self._asked: tuple[float, bytes | None] = (float("-inf"), None)

    async def page(
        self, cursor: str, *, signer: bytes | None = None
    ) -> tuple[DocumentPage | None, Moment]:
        """Return a page, and when the service confirmed it; None if there is no such cursor.

        With `signer`, the document names this list signer. Raises `NoAnswer` if there is none.
        """
        read = self._read
        if read is None or not _is_enough(read, signer) or _is_old(read):
            await self._refreshed(signer, has_older=read is not None and _is_enough(read, signer))
        read = self._read
        if read is None or not _is_enough(read, signer):
            raise NoAnswer(f"the relay does not have {self._kind.path}")
        return read.pages.get(cursor), read.confirmed

    def close(self) -> None:
        """Let nobody wait for the service."""
        if self._task:
            self._task.cancel()

    async def _refreshed(self, signer: bytes | None, *, has_older: bool) -> None:
        """Wait until the service was asked, but not for long if there is something to repeat.

        It is asked again at once for another signer than before.
        """
        if self._task is None:
            asked_at, asked_for = self._asked
            if asked_for == signer and monotonic() - asked_at < _RETRY:
                return
            self._asked = monotonic(), signer
            self._task = asyncio.ensure_future(self._refresh())
        await asyncio.wait({self._task}, timeout=_PATIENCE if has_older else None)

    async def _refresh(self) -> None:
        try:
            self._read = await self._line.run(self._fetched)
        except (NoAnswer, *_MALFORMED, OSError) as error:
            _log.warning("%s cannot be read: %s", self._kind.path, printable(str(error)))
        finally:
            self._task = None

    def _fetched(self, transport: Transport) -> Read:
        """Return the document as the service has it. Raises if it is not what it has to be."""
        asked, held = Moment.now(), self._read
        etag = held.pages[""].etag if held else None
        first = transport.get(self._kind.path, limit=_PAGE_MAX, etag=etag)
        if held and etag and first.status == _NOT_MODIFIED:
            return replace(held, confirmed=asked.before(read_age(first)))
        pages = {
            cursor: DocumentPage(each.body, each.headers.get("etag"))
            for cursor, each in _pages(transport, self._kind.path, first)
        }
        read = Read(pages, asked.before(read_age(first)), self._kind.check(_parsed(pages)))
        if held is None or held.pages != pages:
            self._save(read)
        return read

    def _save(self, read: Read) -> None:
        pages = [
            [cursor, each.etag, base64.b64encode(each.body).decode()]
            for cursor, each in read.pages.items()
        ]
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        members = {"confirmed": read.confirmed.wall, "pages": pages}
        files.replace(self._file, json.dumps(members).encode())

    def _loaded(self) -> Read | None:
        """Return what an earlier relay kept, if it is whole and of this tenant."""
        try:
            members = json.loads(self._file.read_bytes())
            pages = {
                cursor: DocumentPage(base64.b64decode(body, validate=True), etag)
                for cursor, etag, body in members["pages"]
            }
            confirmed = Moment.of_wall(float(members["confirmed"]))
            return Read(pages, confirmed, self._kind.check(_parsed(pages)))
        except FileNotFoundError:
            return None
        except _MALFORMED as error:
            _log.warning("%s is not used: %s", self._file, error)
            return None


def _signers(pages: list[Any]) -> frozenset[bytes]:
    return _public_keys(key for each in pages for key in each["keys"])


def _public_keys(entries: Iterable[Any]) -> frozenset[bytes]:
    return frozenset(base64.b64decode(each["public_key"], validate=True) for each in entries)


def _pages(transport: Transport, path: str, first: Response) -> Iterator[tuple[str, Response]]:
    """Yield the pages by their cursors."""
    cursor, response, left = "", first, _BYTES_MAX
    for _ in range(_PAGES_MAX):
        if response.status != _OK:
            raise unexpected(response)
        left -= len(response.body)
        if left < 0:
            raise NoAnswer(f"it has more than {_BYTES_MAX} bytes")
        yield cursor, response
        following = _cursor(response.body)
        if following is None:
            return
        cursor = following
        response = transport.get(f"{path}?cursor={quote(cursor, safe='')}", limit=_PAGE_MAX)
    raise NoAnswer("it has too many pages")


def _cursor(body: bytes) -> str | None:
    page = parse_json(body)
    cursor = page.get("cursor") if isinstance(page, dict) else None
    return cursor if isinstance(cursor, str) and cursor else None


def _parsed(pages: Mapping[str, DocumentPage]) -> list[Any]:
    return [parse_json(each.body) for each in pages.values()]


def _is_enough(read: Read, signer: bytes | None) -> bool:
    return signer is None or signer in read.signers


def _is_old(read: Read) -> bool:
    return monotonic() - read.confirmed.monotonic > FRESH_SECONDS
