"""How a Signed Revocation List is made and published (docs/adr/0004)."""
