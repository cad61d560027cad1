"""Witnesses over HTTP."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from shared.model.audit.cosignatures import BYTES_MAX
from shared.ports.outside import WITNESS_PATIENCE_SECONDS, WitnessAnswer

_PART: Final = 4096


class HttpWitnesses:
    """A `WitnessClient`. `patience` is the longest time of a request in seconds."""

    def __init__(self, patience: float = WITNESS_PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._http = PoolManager(timeout=Timeout(total=patience), retries=False)

    def ask(self, asked: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post these bodies to these addresses at the same time."""
        if not asked:
            return []
        with ThreadPoolExecutor(len(asked), thread_name_prefix="witness") as pool:
            return list(pool.map(self._post, asked))

    def _post(self, asked: tuple[str, bytes]) -> WitnessAnswer:
        url, body = asked
        deadline = time.monotonic() + self._patience
        try:
            answer = self._http.request(
                "POST", url, body=body, redirect=False, preload_content=False
            )
        except (HTTPError, OSError, ValueError):
            return WitnessAnswer(0)
        try:
            return WitnessAnswer(answer.status, _read(answer, deadline))
        except (HTTPError, OSError, ValueError):
            return WitnessAnswer(0)
        finally:
            answer.close()


def _read(answer: BaseHTTPResponse, deadline: float) -> bytes:
    """Return the whole body. Raises `OSError` if it is too long or too slow."""
    found = b""
    # `read1` returns what has arrived, so that a body that drips is given up in time.
    while part := answer.read1(_PART):
        found += part
        if len(found) > BYTES_MAX or time.monotonic() > deadline:
            raise OSError("the answer of a witness is too long or too slow")
    return found
