"""Answers of KMS during an outage."""

from tests.adapters import outages
from tests.adapters.answers import Step, error

PASSING: dict[str, Step] = outages.PASSING | {
    "broken inside": error("KMSInternalException", status=500),
    "a part timed out": error("DependencyTimeoutException", status=503),
    "key unavailable": error("KeyUnavailableException", status=500),
}
OUTAGES: dict[str, Step] = (
    outages.LASTING
    | PASSING
    | {
        "disabled": error("DisabledException"),
        "awaits deletion": error("KMSInvalidStateException"),
        "no such key": error("NotFoundException"),
    }
)
