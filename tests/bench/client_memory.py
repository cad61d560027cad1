"""Load a base as a client of the feed does, and print by how much the memory grew, in MB.

The second number is by how much it had grown at most.

python -m tests.bench.client_memory <file with the payload of a list in gzip>
"""

import gc
import gzip
import hashlib
import sys
from pathlib import Path

import cbor2

from shared.authorizer.formats import wire
from shared.authorizer.formats.ids import of_base


def main() -> None:
    """Load and print."""
    packed = Path(sys.argv[1]).read_bytes()
    # What the head says of it. The test of its hash is part of what is measured.
    data = gzip.decompress(packed)
    payload = cbor2.loads(data)
    sha256 = hashlib.sha256(data).digest()
    base = wire.Base(payload["Version"], 0, b"", sha256, len(payload["RevokedIDs"]))
    del payload, data
    gc.collect()
    # So that the parse above does not count.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    held = of_base(gzip.decompress(packed), base)
    gc.collect()
    print(_status("VmRSS") - before, _status("VmHWM") - before)
    del held


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("this system does not tell")


if __name__ == "__main__":
    main()
