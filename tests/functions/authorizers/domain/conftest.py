"""Tests of a domain use ports without HTTP, as the tests of the core's operations do."""

from tests.operations.conftest import anywhere, at_once, deployment, few_partitions, ports, tenant

__all__ = ["anywhere", "at_once", "deployment", "few_partitions", "ports", "tenant"]
