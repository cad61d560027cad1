"""Stop the functions of a stage in another region, before its data goes on elsewhere."""

from pkgutil import iter_modules
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import functions
from shared.errors import RescindError

# It has no store.
_KEPT: Final = "console"
_CONFIG: Final = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3})


class SilentRegion(RescindError):
    """A region does not answer, or refuses."""


def names(prefix: str) -> list[str]:
    """Return the names of the functions that have a store, of the stage with this prefix."""
    found = (each.name.replace("_", "-") for each in iter_modules(functions.__path__))
    return [f"{prefix}{each}" for each in sorted(found) if each != _KEPT]


def stop(named: list[str], *, region: str, endpoint: str | None) -> None:
    """Reserve no concurrency for those of these functions that exist, so that none begins any more.

    Raises `SilentRegion` if that cannot be done, or if there is none of them.
    """
    client: Any = boto3.client("lambda", region_name=region, endpoint_url=endpoint, config=_CONFIG)
    try:
        stopped = [each for each in named if _is_stopped(client, each)]
    except (BotoCoreError, ClientError) as error:
        raise SilentRegion(f"The functions in {region} were not stopped: {error}") from None
    if not stopped:
        raise SilentRegion(f"There is no function of this stage in {region}: {', '.join(named)}.")


def _is_stopped(client: Any, name: str) -> bool:
    """Stop a function; return false if it does not exist, as one of another release may not."""
    try:
        client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    except client.exceptions.ResourceNotFoundException:
        return False
    return True
