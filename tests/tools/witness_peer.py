"""Another implementation of tlog-witness as the client of a witness: `aics-witness`.

Reads a JSON request from standard input: `url` and `key` of a witness, and `submissions`, each a
`note` and the `proofs` that it may need, by the old size. Prints for each the lines that the
witness signed, after a check of them, or the error.
"""

import json
import sys
from typing import Any

from aics_witness.feeder import FeederError, WitnessClient


def main() -> None:
    """Submit each checkpoint, in order."""
    request = json.load(sys.stdin)
    with WitnessClient(request["url"], request["key"], max_attempts=1) as client:
        print(json.dumps([_submitted(client, each) for each in request["submissions"]]))


def _submitted(client: WitnessClient, each: dict[str, Any]) -> str:
    def proof(old: int, _new: int) -> list[bytes]:
        return [bytes.fromhex(found) for found in each["proofs"][str(old)]]

    client.known_sizes.clear()
    try:
        return str(client.submit(each["note"], proof))
    except FeederError as error:
        return f"{type(error).__name__}: {error}"


main()
