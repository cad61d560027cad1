"""The Signed Revocation List: what it is made of, how it is signed and verified."""
