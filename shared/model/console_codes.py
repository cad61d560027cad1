"""The one-time codes that sign in to the console: only their hashes are stored (docs/adr/25)."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

LIFETIME: Final = timedelta(minutes=5)

_CODES: Final = Partition(Table.KEYS, "console-codes")

# The address of the console of the server that was started last, such as http://127.0.0.1:8080.
SERVER: Final = Address(Table.KEYS, "console")


@dataclass(frozen=True, slots=True)
class ConsoleCode(Record):
    """A code for the tenant named `tenant`.

    The store removes it some time after `expires`, which is in seconds since the epoch.
    """

    tenant: str
    expires: int

    def is_valid(self, now: datetime) -> bool:
        """Return whether it can be used. A clock that was set back does not lengthen its life."""
        return 0 < self.expires - now.timestamp() <= LIFETIME.total_seconds()


def address(code: str) -> Address:
    """Return where the item of a code is."""
    return _CODES.address(hashlib.sha256(code.encode(errors="replace")).hexdigest())
