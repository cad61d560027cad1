"""The Signed Revocation List: its content, signature, storage and verification."""
