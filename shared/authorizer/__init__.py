"""The client of the feed, for authorizers. It is published as the wheel `rescind-authorizer`.

It imports nothing of the service; the service imports the wire format from here.
"""
