"""The end of the credential of an API key (docs/adr/05)."""

from datetime import datetime

from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, RevocationNote
from shared.ports.store import Change, Delete, Expect, Put


def revoked(key: ApiKey, at: datetime, expect: Expect) -> list[Change]:
    """Return the changes for the write that revokes a key `at`; `expect` is of its credential."""
    note = RevocationNote(key.digest, key.tenant_id, at)
    return [
        Delete(model.credential_address(key.digest), expect),
        Put(note.address, note.to_item(), Expect.ANYTHING),
    ]


def deleted(key: ApiKey) -> list[Change]:
    """Return the changes for the write that deletes a key in any state."""
    return [
        Delete(model.credential_address(key.digest), Expect.ANYTHING),
        Delete(model.revocation_note_address(key.digest), Expect.ANYTHING),
    ]
