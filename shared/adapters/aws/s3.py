"""Blobs as objects in one private S3 bucket."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError, FlexibleChecksumError

from shared.adapters.aws import clients
from shared.adapters.aws.clients import Lazy, code_of, translating_errors, unavailable
from shared.adapters.preconditions import check_blob_name
from shared.adapters.retries import PATIENCE, RetryPolicy
from shared.errors import BlobExists, DataCorrupt, Unavailable
from shared.model.lists.head import CACHE_CONTROL, content_encoding, media_type
from shared.ports.outside import CopiedRange

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def connect(*, region: str | None = None, endpoint_url: str | None = None) -> S3Client:
    """Return a client. Both arguments default to the AWS settings of the process.

    A server with a custom endpoint needs no region. Raises `InvalidSettings`.
    """
    # A signed URL must name the bucket's region, because the global name redirects, which
    # invalidates the signature. A server with a custom endpoint supports only the path style.
    own = (
        endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    )
    style = "path" if own else "virtual"
    if not (own or region):
        # Without a region, botocore would use the region of the global name.
        clients.check_region()
    client: S3Client = clients.connect(
        "s3",
        region=region,
        endpoint_url=endpoint_url,
        read_timeout_seconds=10,
        signature_version="s3v4",
        s3={"addressing_style": style},
    )
    return client


class S3Blobs:
    """A `BlobStore` in `bucket`.

    S3 reports a missing object only to callers with permission to list the bucket. Other callers
    get an access error, which becomes `Unavailable`.
    """

    def __init__(
        self, connect: Callable[[], S3Client], *, bucket: str, patience: RetryPolicy = PATIENCE
    ) -> None:
        self._client = Lazy(connect)
        self._bucket = bucket
        self._patience = patience

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `Unavailable`."""
        check_blob_name(name)
        refused = None
        for _ in self._patience.attempts():
            with translating_errors():
                try:
                    self._client().put_object(
                        Bucket=self._bucket,
                        Key=name,
                        Body=data,
                        IfNoneMatch="*",
                        ChecksumAlgorithm="SHA256",
                    )
                except ClientError as error:
                    if code_of(error) == "PreconditionFailed":
                        # A retried request may have found the object of its own first attempt.
                        retries = error.response["ResponseMetadata"].get("RetryAttempts", 0)
                        if retries and self.get(name) == data:
                            return
                        raise BlobExists from error
                    if code_of(error) != "ConditionalRequestConflict":
                        raise
                    refused = error  # another writer; the next attempt shows who won
                else:
                    return
        raise unavailable(refused) from refused

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if it does not exist. Raises `Unavailable`."""
        check_blob_name(name)
        with translating_errors():
            try:
                answer = self._client().get_object(
                    Bucket=self._bucket, Key=name, ChecksumMode="ENABLED"
                )
                return answer["Body"].read()
            except FlexibleChecksumError as error:
                raise DataCorrupt from error
            except ClientError as error:
                if code_of(error) != "NoSuchKey":
                    raise
                return None

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the blobs below `folder`, in order. Raises `Unavailable`."""
        check_blob_name(folder)
        pages = (
            self._client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self._bucket, Prefix=f"{folder}/")
        )
        with translating_errors():
            for page in pages:
                # botocore reads a response without a body as an empty listing.
                if "KeyCount" not in page:
                    raise Unavailable
                yield from (found["Key"] for found in page.get("Contents", ()))

    def discard(
        self,
        folder: str,
        *,
        before: str,  # noqa: ARG002 (the port's)
        start: str = "",  # noqa: ARG002 (the port's)
        older_than_seconds: float | None = None,  # noqa: ARG002 (the port's)
        any_age_before: str = "",  # noqa: ARG002 (the port's)
    ) -> None:
        """Do nothing: a lifecycle rule of the bucket deletes old blobs (infra/stateful.yaml)."""
        check_blob_name(folder)

    def remove(self, name: str) -> None:
        """Delete a blob, if it exists. Raises `Unavailable`."""
        check_blob_name(name)
        with translating_errors():
            self._client().delete_object(Bucket=self._bucket, Key=name)

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a presigned URL. It expires earlier if the signing credentials do."""
        check_blob_name(name)
        asked = {
            "Bucket": self._bucket,
            "Key": name,
            "ResponseContentType": media_type(name),
            "ResponseCacheControl": CACHE_CONTROL,
        }
        if encoding := content_encoding(name):
            asked["ResponseContentEncoding"] = encoding
        with translating_errors():
            return self._client().generate_presigned_url(
                "get_object", Params=asked, ExpiresIn=ttl_seconds
            )

    def get_file(self, name: str, *, sha256: str) -> None:  # noqa: ARG002 (the port's)
        """Return None, because there are no files."""
        check_blob_name(name)


class S3Sink:
    """An `AuditSink` in a bucket with Object Lock, ideally in another account.

    It requires only the permissions `s3:PutObject` and `s3:PutObjectRetention`.
    """

    def __init__(self, connect: Callable[[], S3Client], *, bucket: str) -> None:
        self._client = Lazy(connect)
        self._bucket = bucket

    def add(self, copied_range: CopiedRange) -> None:
        """Store the lines as an object that is locked until `keep_until`. Raises `Unavailable`."""
        name = f"{copied_range.first:012}-{copied_range.end:012}.ndjson"
        with translating_errors():
            self._client().put_object(
                Bucket=self._bucket,
                Key=f"{copied_range.tenant_id}/{copied_range.generation}/{name}",
                Body=copied_range.lines,
                ContentType="application/x-ndjson",
                ObjectLockMode="COMPLIANCE",
                ObjectLockRetainUntilDate=copied_range.keep_until,
                ChecksumAlgorithm="SHA256",
            )
