"""The CDDL checker `zcbor` as a peer, in an environment of its own (`.tools/cddl`).

    python tests/tools/cddl_peer.py < request.json > answer.json

The request has a text of CDDL and a list of items: the name of a type, and bytes in hexadecimal.
The answer says of each item whether it is of its type.
"""

import json
import sys
from typing import Any

from zcbor import CddlValidationError, DataTranslator


def _is_valid(types: dict[str, Any], name: str, data: str) -> bool:
    try:
        types[name].validate_str(bytes.fromhex(data))
    except CddlValidationError:
        return False
    return True


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    types = DataTranslator.from_cddl(request["cddl"], 1_000_000).my_types
    json.dump([_is_valid(types, *item) for item in request["items"]], sys.stdout)


if __name__ == "__main__":
    main()
