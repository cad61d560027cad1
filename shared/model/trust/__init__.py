"""The trust documents of a tenant, as they are stored."""
