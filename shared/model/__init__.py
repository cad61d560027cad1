"""The data model: frozen records and pure rules. It does no I/O, and callers pass the time in."""
