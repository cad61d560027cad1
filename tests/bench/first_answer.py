"""A cold start: what a fresh interpreter runs, with nothing to import from but the given folders.

    python -I -S first_answer.py <folders> <handler> <event> <file descriptor>

It writes what the handler answers to the descriptor, and ends at once.
"""

import json
import os
import sys
from importlib import import_module


def main() -> None:
    """Answer one event."""
    folders, handler, event, descriptor = sys.argv[1:]
    sys.path[:0] = folders.split(os.pathsep)
    module, _, function = handler.rpartition(".")
    answer = getattr(import_module(module), function)(json.loads(event), None)
    os.write(int(descriptor), json.dumps(answer).encode())
    # Lambda does not wait for an interpreter to end either.
    os._exit(0)


if __name__ == "__main__":
    main()
