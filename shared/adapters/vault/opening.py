"""Opens the ports on Vault and OpenBao."""

import os

from shared.adapters.vault.sealer import VaultSealer
from shared.ports.outside import KeyWrapper


def open_key_wrapper(location: str) -> KeyWrapper:
    """Open a key of the transit engine."""
    return VaultSealer(location, os.environ)
