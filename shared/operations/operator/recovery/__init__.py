"""Recovery after the records were restored from a backup (docs/adr/14)."""
