"""The service on loopback that the clients of the hosts follow."""

from tests.authorizer.conftest import service

__all__ = ["service"]
