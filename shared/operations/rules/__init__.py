"""The rules that operations share."""
