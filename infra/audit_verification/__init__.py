"""Verification of a tenant's audit log against its sealed log, from outside (LOG-24)."""
