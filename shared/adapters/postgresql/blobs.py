"""Blobs in PostgreSQL, in parts of one MiB, in the same database as the records."""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from shared.adapters.local.links import KEY_BYTES, SignedUrls
from shared.adapters.postgresql.database import (
    BEGUN,
    PooledConnection,
    PostgresqlDatabase,
    execute_pipelined,
)
from shared.adapters.preconditions import check_blob_name
from shared.errors import BlobExists, DataCorrupt

_PART_BYTES: Final = 1024 * 1024
_PAGE: Final = 1000
# Blob names have no part that begins with a dot.
_URL_KEY: Final = ".url-key"

_NEW: Final = """INSERT INTO blobs (name, size) VALUES (%s, %s)
    ON CONFLICT DO NOTHING RETURNING 1"""
_PART: Final = "INSERT INTO blob_parts VALUES (%s, %s, %s)"
_GET: Final = """SELECT size, data FROM blobs LEFT JOIN blob_parts USING (name)
    WHERE name = %s ORDER BY n"""
_NAMES: Final = "SELECT name FROM blobs WHERE name > %s AND name < %s ORDER BY name LIMIT %s"
_REMOVE: Final = "DELETE FROM blobs WHERE name = %s RETURNING 1"
_DISCARD: Final = """DELETE FROM blobs WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM blobs WHERE name >= %s AND name < %s
    AND position('/' IN substr(name, %s)) = 0
    AND (name < %s OR at < now() - make_interval(secs => %s)))) RETURNING 1"""


class PostgresqlBlobs:
    """A `BlobStore` in a database with tables from `rescind setup`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._links = SignedUrls(self._url_key, time.time)

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `OutOfSpace`, `Unavailable`."""
        check_blob_name(name)
        self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        begin = [("BEGIN", ()), (BEGUN, (uuid.uuid4(),)), (_NEW, (name, len(data)))]

        def attempt(connection: PooledConnection) -> None:
            """Store the blob in one transaction, unless an earlier attempt has."""
            _, is_first, is_new = execute_pipelined(connection, begin)
            if is_first != [(True,)]:
                connection.commit_with([])
                return
            if not is_new:
                raise BlobExists
            starts = range(0, len(data), _PART_BYTES)
            connection.commit_with(
                (_PART, (name, number, data[start : start + _PART_BYTES]))
                for number, start in enumerate(starts)
            )

        self._database.run(attempt)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if it does not exist. Raises `Unavailable`."""
        check_blob_name(name)
        return self._get(name)

    def _get(self, name: str) -> bytes | None:
        rows = self._database.rows(_GET, (name,))
        if not rows:
            return None
        data = b"".join(part for _, part in rows if part is not None)
        if len(data) != rows[0][0]:
            raise DataCorrupt
        return data

    def get_file(self, name: str, *, sha256: str) -> None:  # noqa: ARG002
        """Return None, because there are no files."""
        check_blob_name(name)

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the blobs below `folder`, in order. Raises `Unavailable`."""
        check_blob_name(folder)
        # "0" is the next character after the slash, so it is the upper bound of the folder.
        low, high = f"{folder}/", f"{folder}0"
        while True:
            rows = self._database.rows(_NAMES, (low, high, _PAGE))
            yield from (name for (name,) in rows)
            if len(rows) < _PAGE:
                return
            low = rows[-1][0]

    def discard(
        self,
        folder: str,
        *,
        before: str,
        start: str = "",
        older_than_seconds: float | None = None,
        any_age_before: str = "",
    ) -> None:
        """Delete the blobs in `folder` named from `start` to before `before`.

        With `older_than_seconds`, delete only blobs that are older, or that sort before
        `any_age_before`. Raises `Unavailable`.
        """
        check_blob_name(folder)
        inside = f"{folder}/"
        any_age = before if older_than_seconds is None else any_age_before
        age = older_than_seconds or 0.0
        names = inside + start, inside + before, len(inside) + 1, inside + any_age
        self._database.rows(_DISCARD, (*names, age))

    def remove(self, name: str) -> None:
        """Delete a blob, if it exists. Raises `Unavailable`."""
        check_blob_name(name)
        self._database.rows(_REMOVE, (name,))

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a relative reference that `open_url` accepts until it expires."""
        return self._links.url(name, ttl_seconds=ttl_seconds)

    def open_url(self, name: str, *, expires: str, signature: str) -> bytes | None:
        """Return the blob for the parts of a reference from `url`, as received.

        Returns None if the reference was altered or has expired, or if the blob does not exist.
        Raises `Unavailable`.
        """
        if not self._links.allows(name, expires=expires, signature=signature):
            return None
        return self.get(name)

    def _url_key(self) -> bytes:
        """Return the key shared by all servers. The first server creates it."""
        key = self._get(_URL_KEY)
        if key is None:
            with suppress(BlobExists):
                self._put(_URL_KEY, os.urandom(KEY_BYTES))
            key = self._get(_URL_KEY)
        if key is None:
            raise DataCorrupt
        return key
