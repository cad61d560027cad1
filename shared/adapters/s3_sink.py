"""A sink in S3: objects that nobody can remove before their time (Object Lock)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.adapters.aws import Lazy, translating_errors
from shared.ports.audit_sink import Copied

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Sink:
    """An `AuditSink` in a bucket with Object Lock, best one of another account.

    It needs the permissions `s3:PutObject` and `s3:PutObjectRetention`, and no other.
    """

    def __init__(self, connect: Callable[[], S3Client], *, bucket: str) -> None:
        self._client = Lazy(connect)
        self._bucket = bucket

    def add(self, copied: Copied) -> None:
        """Store the lines as an object that is locked until its time. Raises `Unavailable`."""
        name = f"{copied.first:012}-{copied.end:012}.ndjson"
        with translating_errors():
            self._client().put_object(
                Bucket=self._bucket,
                Key=f"{copied.tenant_id}/{copied.generation}/{name}",
                Body=copied.lines,
                ContentType="application/x-ndjson",
                ObjectLockMode="COMPLIANCE",
                ObjectLockRetainUntilDate=copied.keep_until,
                ChecksumAlgorithm="SHA256",
            )
