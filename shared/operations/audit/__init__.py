"""How the audit log is sealed, and how the sealed log is read (docs/adr/0057)."""
