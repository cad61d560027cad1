"""The operations of the API: authorise, read, decide, write once."""
