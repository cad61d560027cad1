"""Making and publishing Signed Revocation Lists (docs/adr/0004)."""
