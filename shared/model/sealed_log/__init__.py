"""The sealed log: the Merkle log of commitments to a tenant's audit entries (LOG-1)."""
