"""Why a command ends, and its exit code."""

from enum import IntEnum

from shared.errors import RescindError


class Exit(IntEnum):
    """What the exit code of a command says.

    `REVOKED` means that a warrant in question is revoked. `UNKNOWN` has the same number: a recovery
    succeeded, but some changes since the restored moment are unknown.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    REVOKED = 3
    UNKNOWN = 3


class WrongUsage(RescindError):
    """The arguments, the profile or the environment are wrong; nothing was sent."""


class NoAnswer(RescindError):
    """The service cannot be reached, or its answer is not one of this API."""


class NotWritten(RescindError):
    """A file for the result cannot be written."""


class ApiError(RescindError):
    """The service refused the request, with an HTTP `status` and an error `code` of API-10.

    `request_id` is what the log of the service has, if the answer names it.
    """

    def __init__(self, status: int, code: str, message: str, request_id: str | None) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        super().__init__(f"{message} ({code})")
