"""Verify a tenant's audit log against its transparency log, from outside (LOG-24)."""
