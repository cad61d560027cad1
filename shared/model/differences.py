"""Difference between two states of a record, for approvals and the audit log (APPROVAL-2)."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from shared.model.items import Item, Value
from shared.model.records import Record

# Storage location, write counter, and values that the service generates at each attempt. Wrapping a
# secret gives a different result each time, so its record also has a hash of the secret.
_SKIPPED: Final = ("id", "tenant_id", "created_at", "version", "digest")
_SEALED: Final = "sealed_"
# The members that the thumbprint of a key covers (RFC 7638, section 3.2; RFC 8037, section 2).
_COVERED: Final[Mapping[str, tuple[str, ...]]] = {
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
    "RSA": ("e", "kty", "n"),
}


def describe_change(previous: Record | None, after: Record | None) -> dict[str, Value]:
    """Return the fields that differ, each as `old` and `new`.

    There is no record before a creation and after a deletion. Secrets, which are the fields hidden
    from `repr`, are replaced by their SHA-256. Key sets appear as `kid`, type and thumbprint.
    """
    old, new = (_visible_members(each) for each in (previous, after))
    return {
        name: {"old": old.get(name), "new": new.get(name)}
        for name in sorted(old.keys() | new.keys())
        # An empty list in a new record is not a change.
        if old.get(name, []) != new.get(name, [])
    }


def changed_details(name: str, old: Record | None, new: Record | None) -> dict[str, Value]:
    """Return the details of a change for its approval and its audit entry."""
    return {"name": name, "changes": describe_change(old, new)}


def compute_thumbprint(key: Mapping[str, Any]) -> str:
    """Return the thumbprint of a public key (RFC 7638); of all members if its type is unknown."""
    members = {name: key.get(name) for name in _COVERED.get(str(key.get("kty")), sorted(key))}
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _visible_members(record: Record | None) -> Item:
    if record is None:
        return {}
    secret = {each.name for each in fields(record) if not each.repr}  # type: ignore[arg-type]
    return {
        name: _hash(value) if name in secret else _readable(value)
        for name, value in record.to_item().items()
        if name not in _SKIPPED and not name.startswith(_SEALED)
    }


def _hash(secret: Value) -> str:
    data = secret if isinstance(secret, bytes) else json.dumps(secret).encode()
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _readable(value: Value) -> Value:
    keys: Any = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(keys, list):
        return value
    return [
        {"kid": each.get("kid"), "kty": each.get("kty"), "thumbprint": compute_thumbprint(each)}
        for each in keys
    ]
