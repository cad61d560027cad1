"""A root key in an HSM, through the vendor's PKCS#11 module. It never leaves the HSM."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

import pkcs11
from pkcs11 import Attribute, Mechanism, ObjectClass, Session

from shared.adapters import verified
from shared.adapters.local.file_root import read_passphrase
from shared.adapters.pkcs11.uri import Pkcs11Uri
from shared.adapters.preconditions import check_signed
from shared.authorizer.formats import ed25519
from shared.errors import InvalidSettings, Unavailable

# Some modules wrap the point in an ASN.1 OCTET STRING, following PKCS#11 3.0.
_WRAPPED: Final = b"\x04\x20"
_OF_THE_PIN: Final = (
    pkcs11.PinExpired,
    pkcs11.PinIncorrect,
    pkcs11.PinInvalid,
    pkcs11.PinLenRange,
    pkcs11.PinLocked,
)
_NOT_FOUND: Final = (
    pkcs11.MultipleTokensReturned,
    pkcs11.NoSuchKey,
    pkcs11.NoSuchToken,
)
_AWAY: Final = (
    "The HSM with the root key does not respond. Connect it, and check that it is unlocked."
)
_LOST: Final = (
    "The HSM has no such token, or the token does not contain exactly one such key pair. Check "
    "the URI."
)
_PIN: Final = (
    "The HSM rejected the PIN. Correct the PIN file, then restart. The PIN is not tried again, "
    "because an HSM locks itself after a few attempts."
)

# Only one thread at a time uses a module, for any key.
_lock: Final = Lock()


class Pkcs11Root:
    """A `RootSigner` with the key at `uri`. The token must also have the public key.

    A session lasts for one signature, so the HSM may be absent between signatures. Raises
    `InvalidSettings` if the module or the file of the PIN is missing.
    """

    def __init__(self, uri: Pkcs11Uri) -> None:
        if not uri.module.is_file():
            raise InvalidSettings(f"{uri.module} is missing: install the module of the HSM.")
        try:
            self._pin: str | None = read_passphrase(uri.pin).decode()
        except UnicodeDecodeError:
            raise InvalidSettings(
                f"{uri.pin} has no PIN in UTF-8. Write the PIN into its first line."
            ) from None
        self._uri = uri
        self._public_key: bytes | None = None
        # The process that initialized the module. A fork or a failure requires a new
        # initialization.
        self._ready_in: int | None = None

    @property
    def public_key(self) -> bytes:
        """The public key (32 bytes). Raises `Unavailable`."""
        with _lock:
            if self._public_key is None:
                with self._session() as session:
                    point: bytes = self._key(session, ObjectClass.PUBLIC_KEY)[Attribute.EC_POINT]
                    if len(point) == len(_WRAPPED) + ed25519.PUBLIC_KEY_BYTES:
                        point = point.removeprefix(_WRAPPED)
                    self._public_key = verified.public_key(point)
            return self._public_key

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes. Raises `Unavailable`."""
        check_signed(data)
        public_key = self.public_key
        with _lock, self._session() as session:
            key = self._key(session, ObjectClass.PRIVATE_KEY)
            signature: bytes = key.sign(data, mechanism=Mechanism.EDDSA)
        return verified.signature(data, signature, public_key=public_key)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        if self._pin is None:
            raise Unavailable(_PIN)
        try:
            library = pkcs11.lib(str(self._uri.module))
            if self._ready_in != os.getpid():
                with suppress(pkcs11.PKCS11Error):
                    library.finalize()
                library.initialize()
                self._ready_in = os.getpid()
            token = library.get_token(token_label=self._uri.token, token_serial=self._uri.serial)
            with token.open(user_pin=self._pin) as session:
                yield session
        except _OF_THE_PIN as error:
            self._pin = None
            raise Unavailable(_PIN) from error
        except _NOT_FOUND as error:
            raise Unavailable(_LOST) from error
        except pkcs11.PKCS11Error as error:
            self._ready_in = None
            raise Unavailable(_AWAY) from error

    def _key(self, session: Session, kind: ObjectClass) -> Any:
        wanted: dict[Attribute, Any] = {Attribute.CLASS: kind}
        if self._uri.label is not None:
            wanted[Attribute.LABEL] = self._uri.label
        if self._uri.id is not None:
            wanted[Attribute.ID] = self._uri.id
        # Read all results, because an unfinished search blocks the next search.
        found = list(session.get_objects(wanted))
        if len(found) != 1:
            raise pkcs11.NoSuchKey
        return found[0]
