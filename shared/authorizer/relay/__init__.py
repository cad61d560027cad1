"""A relay: it follows the feed once, verifies it, and answers the authorizers near it.

It needs what the wheel's extra `relay` installs. Nothing else of the package imports it.
"""
