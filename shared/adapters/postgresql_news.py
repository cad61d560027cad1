"""News of commits through PostgreSQL, for the server that publishes (docs/adr/11)."""

import math
import select
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg
from psycopg import Connection

from shared.adapters.bells import Bells
from shared.adapters.postgresql_database import PostgresqlDatabase
from shared.ports.one_machine import News

_CHANNEL: Final = "rescind_marks"
NOTIFY: Final = f"NOTIFY {_CHANNEL}"

# How often news are pretended while none can be heard.
_DEAF_SECONDS: Final = 0.05
_CONNECT_SECONDS: Final = 30.0


class PostgresqlListener:
    """Hears of marks by a connection of its own.

    While there is none, as if the database is away or behind a pooler, which loses notifications,
    it pretends news twenty times a second.
    """

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._connection: Connection[Any] | None = None
        self._connects_at = -math.inf
        with TemporaryDirectory() as folder:
            # Nobody rings it but this process, so it needs no name.
            self._bell = Bells(Path(folder)).listen(News.MARKS)

    def fileno(self) -> int:
        """Return a descriptor that `ring` makes readable; notifications do not."""
        return self._bell.fileno()

    def ring(self) -> None:
        """Pretend that there are news."""
        self._bell.ring()

    def clear(self) -> None:
        """Forget the news so far."""
        self._bell.clear()
        if self._connection is not None:
            try:
                self._connection.pgconn.consume_input()
                while self._connection.pgconn.notifies():
                    pass
            except psycopg.Error:
                self._hang_up()

    def wait(self, seconds: float) -> None:
        """Wait for news, for so long at most, and forget them."""
        if self._connection is None:
            self._connect()
            # The look that follows finds what was committed before this.
            self._bell.wait(min(seconds, _DEAF_SECONDS))
        elif select.select([self.fileno(), self._connection.fileno()], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Hear nothing any more."""
        self._bell.close()
        self._hang_up()

    def _connect(self) -> None:
        if time.monotonic() < self._connects_at:
            return
        self._connects_at = time.monotonic() + _CONNECT_SECONDS
        try:
            self._connection = self._database.listening(_CHANNEL)
        except psycopg.Error:
            # Whoever looks meanwhile says what is wrong.
            self._connection = None

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
