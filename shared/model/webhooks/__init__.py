"""Webhooks, where they may be, and what became of each delivery."""
