"""The audit entry about a whole call for many revocations (REVOKE-25)."""

from dataclasses import dataclass

from shared.errors import ExpectationLost
from shared.ports.store import Change, Put, Store


@dataclass(slots=True)
class Summary:
    """The change that stores the entry, and whether it is known to be stored.

    The first write of the call stores it, so an entry that names it is never without it.
    """

    entry: Put
    is_stored: bool = False

    @property
    def id(self) -> str:
        """The identifier of the entry."""
        return self.entry.address.sk

    def write_with(self, store: Store, *changes: Change) -> None:
        """Apply the changes, and store the entry in the same write unless it is stored.

        Raises `ExpectationLost` also if the entry is stored by now: by another write of the call
        at the same time, or by one whose answer was lost. Raises `Unavailable`.
        """
        own = () if self.is_stored else (self.entry,)
        try:
            store.write(*changes, *own)
        except ExpectationLost as error:
            self.is_stored = self.is_stored or self.entry.address in error.lost
            raise
        self.is_stored = True
