"""What the AWS adapters share: how long a client tries, and what its errors mean."""

import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import Any, Generic, TypeVar

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoRegionError,
    ParamValidationError,
)
from botocore.parsers import ResponseParserError
from botocore.session import Session, get_session

from shared.errors import InvalidSettings, Unavailable

C = TypeVar("C")

# The request itself is wrong, and would be wrong again: a fault in the code, never an outage.
_OUR_FAULTS = frozenset(
    {
        "IdempotentParameterMismatchException",
        "SerializationException",
        "TransactionCanceledException",
        "ValidationException",
    }
)


def connect(
    service: str,
    *,
    region: str | None,
    endpoint_url: str | None,
    connect_timeout_seconds: float = 1,
    read_timeout_seconds: float = 3,
    attempts: int = 3,
    **more: Any,
) -> Any:
    """A client that gives up in seconds, where the defaults wait for minutes; `more` settings.

    Region and address default to the process's AWS settings. Raises `InvalidSettings` where there
    is no region.
    """
    config = Config(
        connect_timeout=connect_timeout_seconds,
        read_timeout=read_timeout_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        max_pool_connections=32,
        **more,
    )
    try:
        return _session().create_client(
            service, region_name=region, endpoint_url=endpoint_url, config=config
        )
    except NoRegionError as error:
        raise InvalidSettings(["AWS_DEFAULT_REGION is not set; set it to the region."]) from error


@cache
def _session() -> Session:
    # boto3 would make the same client, and load its transfers and resources first (ADR 3).
    return get_session()


class Lazy(Generic[C]):
    """A client that `connect` makes at its first use, once for all threads.

    To make one reads the description of its service. That takes longer than most requests do, and
    most requests never call S3, KMS or SQS.
    """

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._made: C | None = None

    def __call__(self) -> C:
        """The client. Raises what `connect` raises; the next call then tries again."""
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made


def reject_truncated_responses(client: Any) -> Any:
    """The client, which then raises if a success came without its whole body of JSON.

    botocore reads a body that is no JSON as an empty answer, which would say "absent", and hands
    out one of a wrong checksum once it has tried again.
    """
    client.meta.events.register("after-call", _check_answer, unique_id="whole-answers")
    return client


def _check_answer(http_response: Any, model: Any, **_: object) -> None:
    # What answers with nothing has nothing to cut short.
    if http_response.status_code >= HTTPStatus.MULTIPLE_CHOICES or model.output_shape is None:
        return
    body: bytes = http_response.content
    checksum = http_response.headers.get("x-amz-crc32")
    if not (body.startswith(b"{") and body.rstrip().endswith(b"}")):
        raise ResponseParserError("a body that is not JSON")
    if checksum is not None and checksum != str(binascii.crc32(body)):
        raise ResponseParserError("a body that does not match its checksum")


def code_of(error: ClientError) -> str:
    """The service's name for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def unavailable(error: ClientError | None) -> Unavailable:
    """A fault that names the call that AWS refused and its error code, for the operator's log."""
    said = f" ({error.operation_name}: {code_of(error)})" if error else ""
    return Unavailable(Unavailable.says + said)


@contextmanager
def translating_errors() -> Iterator[None]:
    """Raise `Unavailable` for every call inside that got no answer; faults of ours fly."""
    try:
        yield
    except ParamValidationError:
        raise
    except ClientError as error:
        if code_of(error) in _OUR_FAULTS:
            raise
        raise unavailable(error) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise Unavailable from error
