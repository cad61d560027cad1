"""URIs of keys in an HSM: the scheme `pkcs11` (RFC 7512)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, unquote_to_bytes

from shared.errors import InvalidSettings

_EXAMPLE: Final = (
    "Write it as pkcs11:token=NAME;object=LABEL?module-path=/usr/lib/…so&pin-source=/FILE"
)
_KNOWN: Final = frozenset({"token", "serial", "object", "id", "type", "module-path", "pin-source"})


@dataclass(frozen=True, slots=True)
class Pkcs11Uri:
    """A key in a token. The token has a label or serial number, the key a label or identifier.

    `module` is the vendor's library. `pin` is the file with the PIN in its first line.
    """

    module: Path
    pin: Path
    token: str | None = None
    serial: bytes | None = None
    label: str | None = None
    id: bytes | None = None

    @classmethod
    def parse(cls, location: str) -> Self:
        """Parse the part of a URI after `pkcs11:`. Raises `InvalidSettings`."""
        path, _, query = location.partition("?")
        given = [each.partition("=") for each in (*path.split(";"), *query.split("&")) if each]
        found = {name: value for name, _, value in given if value}
        if "pin-value" in found:
            raise _invalid(
                "contains the PIN; put the PIN into a file, and name the file in pin-source"
            )
        if unknown := sorted(found.keys() - _KNOWN):
            raise _invalid(f"has the unknown attribute {unknown[0]}")
        if len(found) < len(given) or found.get("type", "private") != "private":
            raise _invalid("has an attribute that is repeated, empty or not for a private key")
        if not found.keys() & {"token", "serial"} or not found.keys() & {"object", "id"}:
            raise _invalid("must name a token (or its serial) and an object (or its id)")
        return cls(
            _file(found, "module-path"),
            _file(found, "pin-source"),
            _text(found, "token"),
            _bytes(found, "serial"),
            _text(found, "object"),
            _bytes(found, "id"),
        )


def _file(attributes: dict[str, str], name: str) -> Path:
    path = Path(unquote(attributes.get(name, "")).removeprefix("file:"))
    if not path.is_absolute():
        raise _invalid(f"must have {name}, the absolute path of a file")
    return path


def _text(attributes: dict[str, str], name: str) -> str | None:
    return unquote(attributes[name]) if name in attributes else None


def _bytes(attributes: dict[str, str], name: str) -> bytes | None:
    return unquote_to_bytes(attributes[name]) if name in attributes else None


def _invalid(problem: str) -> InvalidSettings:
    return InvalidSettings(f"The URI of the root key {problem}. {_EXAMPLE}")
