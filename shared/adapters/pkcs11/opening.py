"""Opens the ports on hardware security modules."""

from shared.adapters.openings import load
from shared.adapters.pkcs11.uri import Pkcs11Uri
from shared.ports.outside import RootSigner


def open_root(location: str, _: bytes | None) -> RootSigner:
    """Open a key of an HSM."""
    uri = Pkcs11Uri.parse(location)
    # After the check of the URI, because it needs the extra.
    root: RootSigner = load("pkcs11.root").Pkcs11Root(uri)
    return root
