"""Relay: follows and verifies the feed once, and serves authorizers in a private network.

Requires the wheel's extra `relay`. The rest of the package does not import it.
"""
