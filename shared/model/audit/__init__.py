"""The audit log, and the sealed log of it."""
