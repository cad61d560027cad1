"""Opens the ports on AWS."""

from contextlib import ExitStack, closing

from shared.adapters.aws import dynamodb, dynamodb_buckets, kms, s3, sqs
from shared.adapters.openings import Records, StoreOptions
from shared.adapters.threads import ThreadedGather
from shared.ports.blobs import BlobStore
from shared.ports.outside import AuditSink, KeyWrapper, MessageQueue, RootSigner
from shared.ports.store import Store


def open_store(table_prefix: str, stack: ExitStack, options: StoreOptions) -> Records:
    """Open the tables with a prefix."""
    client = stack.enter_context(closing(dynamodb.connect()))
    # A standby has separate buckets, because its table receives the buckets of the replicated
    # region.
    region = client.meta.region_name if options.is_standby else ""
    hasty = stack.enter_context(closing(dynamodb_buckets.connect()))
    return (
        dynamodb.DynamoStore(client, table_prefix=table_prefix),
        dynamodb_buckets.DynamoBuckets(client, table_prefix=table_prefix, region=region),
        dynamodb_buckets.DynamoUsage(hasty, table_prefix=table_prefix),
        ThreadedGather(),
    )


def open_blobs(bucket: str, _: Store | None) -> BlobStore:
    """Open a bucket of S3."""
    return s3.S3Blobs(s3.connect, bucket=bucket)


def open_key_wrapper(key_id: str) -> KeyWrapper:
    """Open a key of KMS that wraps."""
    return kms.KmsSealer(kms.connect, key_id=key_id)


def open_root(key_id: str, _: bytes | None) -> RootSigner:
    """Open a key of KMS that signs."""
    # The ARN of a key contains its region: arn:aws:kms:REGION:…
    region = "".join(key_id.split(":")[3:4]) or None
    return kms.KmsRoot(lambda: kms.connect(region=region), key_id=key_id)


def open_queue(url: str) -> MessageQueue:
    """Open a queue of SQS."""
    return sqs.SqsQueue(sqs.connect, url=url)


def open_audit_sink(bucket: str) -> AuditSink:
    """Open a bucket of S3 for copies of audit entries."""
    return s3.S3Sink(s3.connect, bucket=bucket)
