"""The ways in which a service that speaks JSON gives no answer."""

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from tests.adapters.answers import Answer, Step, error

URL = "https://example.invalid/"
NO_CREDENTIALS = NoCredentialsError()

# A further attempt may succeed, so one is made: of the network, and of a service that speaks JSON.
NETWORK: dict[str, Step] = {
    "no connection": EndpointConnectionError(endpoint_url=URL),
    "connection timed out": ConnectTimeoutError(endpoint_url=URL),
    "answer timed out": ReadTimeoutError(endpoint_url=URL),
    "connection cut": ConnectionClosedError(endpoint_url=URL),
}
PASSING: dict[str, Step] = NETWORK | {
    "throttled": error("ThrottlingException"),
    "no throughput": error("ProvisionedThroughputExceededException"),
    "too many requests": error("RequestLimitExceeded"),
    "broken": error("InternalServerError", status=500),
    "overloaded": Answer(b"<html>503 Service Unavailable</html>", 503),
}
LASTING: dict[str, Step] = {
    "denied": error("AccessDeniedException"),
    "gone": error("ResourceNotFoundException"),
    "signature expired": error("ExpiredTokenException"),
    "no credentials": NO_CREDENTIALS,
    "answer cut": Answer(b'{"Item": {'),
    "answer empty": Answer(b""),
    "answer altered": Answer(b"{}", headers={"x-amz-crc32": "1"}),
    "answer by something else": Answer(b"<html>Welcome</html>"),
}
OUTAGES = PASSING | LASTING
