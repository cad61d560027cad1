"""Webhooks, and the sending of changes to them in the order of the sealed log."""
