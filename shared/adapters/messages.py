"""What a caller is told when an adapter fails: no name of a table, file or service."""

UNAVAILABLE = "The service cannot answer now; retry."
CORRUPT = "Stored data cannot be read as it was written."
