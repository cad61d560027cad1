"""The API tests are where they say they are."""

from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.kms import KmsSealer
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.azure.blobs import AzureBlobs
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.store import PostgresqlStore
from shared.ports import Ports
from tests.engines.clouds import address
from tests.engines.worlds import ON


def test_the_ports_are_on_the_engine_that_was_named(ports: Ports) -> None:
    """What a run on an engine counts as passed has passed there."""
    adapters = {"dynamodb": DynamoStore, "s3": S3Blobs, "kms": KmsSealer, "azure": AzureBlobs}
    found = {"dynamodb": ports.store, "kms": ports.sealer}
    for of_postgresql, port in ((PostgresqlStore, ports.store), (PostgresqlBlobs, ports.blobs)):
        assert isinstance(port, of_postgresql) == (ON == "postgresql")
    for service, adapter in adapters.items():
        has_moto = ON == "moto" and service != "azure"
        there = has_moto or (ON == "endpoints" and address(service) is not None)
        assert isinstance(found.get(service, ports.blobs), adapter) == there, service
