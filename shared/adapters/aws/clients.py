"""Shared code of the AWS adapters: client timeouts, retries and error translation."""

import binascii
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError, ParamValidationError
from botocore.parsers import ResponseParserError
from botocore.session import Session, get_session

from shared.adapters.openings import is_snapshotted
from shared.errors import InvalidSettings, Unavailable

C = TypeVar("C")

_log = logging.getLogger(__name__)

# The request is wrong and would fail again: a bug, not an outage.
_OUR_FAULTS = frozenset(
    {
        "IdempotentParameterMismatchException",
        "SerializationException",
        "TransactionCanceledException",
        "ValidationException",
    }
)

# Codes for a permission that the caller's role lacks. Only a deployment can add it.
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException"})
_DENIED_WRITE: Final = re.compile(r"dynamodb:(Delete|Put|Update)Item on resource: \S+-([a-z]+)")


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
    """Return a client that fails within seconds.

    `more` has settings for botocore's `Config`. Region and endpoint default to the AWS settings of
    the process. Raises `InvalidSettings` without a region or with an invalid endpoint.
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
        raise _without_region() from error
    except ValueError as error:
        name = f"AWS_ENDPOINT_URL_{service.upper()}"
        raise InvalidSettings(
            f"{error}; set {name} or AWS_ENDPOINT_URL to an address such as https://minio:9000."
        ) from error


def check_region() -> None:
    """Raise `InvalidSettings` unless the settings of the process have a region."""
    if _session().get_config_variable("region") is None:
        raise _without_region()


def _without_region() -> InvalidSettings:
    return InvalidSettings("AWS_DEFAULT_REGION is not set; set it to the region.")


@cache
def _session() -> Session:
    # boto3 would return the same client, but would first load transfers and resources
    # (docs/adr/03).
    return get_session()


class Lazy(Generic[C]):
    """A client that `connect` creates at its first use, once for all threads.

    botocore reads the description of a service to create its client. This takes longer than most
    requests, and most requests never call S3, KMS or SQS. A snapshot of Lambda contains the client.
    """

    def __init__(self, connect: Callable[[], C]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._made: C | None = connect() if is_snapshotted() else None

    def __call__(self) -> C:
        """Return the client. Raises the errors of `connect`; the next call tries again."""
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made


def reject_truncated_responses(client: Any) -> Any:
    """Make a client raise if a successful response is not complete JSON.

    Otherwise botocore reads such a body as an empty response, which would mean "absent". It also
    accepts a wrong checksum after its retries.
    """
    client.meta.events.register("after-call", _check_answer, unique_id="whole-answers")
    return client


def _check_answer(http_response: Any, model: Any, **_: object) -> None:
    # A call without an output has no body to check.
    if http_response.status_code >= HTTPStatus.MULTIPLE_CHOICES or model.output_shape is None:
        return
    body: bytes = http_response.content
    checksum = http_response.headers.get("x-amz-crc32")
    if not (body.startswith(b"{") and body.rstrip().endswith(b"}")):
        raise ResponseParserError("a body that is not JSON")
    if checksum is not None and checksum != str(binascii.crc32(body)):
        raise ResponseParserError("a body that does not match its checksum")


def code_of(error: ClientError) -> str:
    """Return the error code of the service."""
    return str(error.response.get("Error", {}).get("Code", ""))


def unavailable(error: ClientError | None) -> Unavailable:
    """Return an `Unavailable` that names the call and the AWS error code for the log."""
    said = f" ({error.operation_name}: {code_of(error)})" if error else ""
    return Unavailable(Unavailable.default_message + said)


def cancelled_because(error: ClientError) -> list[str]:
    """Return the reason for each write of a cancelled transaction; empty for other errors."""
    return [str(each.get("Code")) for each in error.response.get("CancellationReasons", [])]


def is_denied(error: ClientError) -> bool:
    """Return whether the caller's role lacks a permission."""
    return not _DENIED.isdisjoint({code_of(error), *cancelled_because(error)})


def _report_denied(error: ClientError) -> None:
    """Log the missing permission. AWS names the role, the action and the table, but no item."""
    message = str(error.response.get("Error", {}).get("Message", ""))
    statement = "the statements"
    if write := _DENIED_WRITE.search(message):
        action, table = write.groups()
        statement = "statement Audit" if table == "audit" else f"statement {action}{table.title()}"
    _log.error(
        "AWS denies %s, and a retry will not help: %s. See %s of that role in template.yaml, and"
        " its parameter WriteConditions.",
        error.operation_name,
        message.rstrip("."),
        statement,
    )


@contextmanager
def translating_errors() -> Iterator[None]:
    """Translate AWS errors to `Unavailable`, except for invalid requests of this service."""
    try:
        yield
    except ParamValidationError:
        raise
    except ClientError as error:
        if is_denied(error):
            _report_denied(error)
        elif code_of(error) in _OUR_FAULTS:
            raise
        raise unavailable(error) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise Unavailable from error
