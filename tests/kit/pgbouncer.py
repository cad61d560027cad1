"""Debian's pgbouncer in front of a PostgreSQL."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.kit.postgresql import USER, PostgresqlPlace
from tests.kit.processes import HOST, free_port
from tests.kit.waiting import soon

PROGRAM: Final = Path("/usr/sbin/pgbouncer")

_SETTINGS: Final = """
[databases]
* = host={host} port={server} user=owner
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 20
"""


@contextmanager
def pgbouncer(server: PostgresqlPlace, mode: str) -> Iterator[PostgresqlPlace]:
    """A pgbouncer that pools what `mode` says: `session`, `transaction` or `statement`."""
    port = free_port()
    with TemporaryDirectory(prefix="rescind-pgbouncer-") as folder:
        settings = Path(folder, "pgbouncer.ini")
        settings.write_text(_SETTINGS.format(host=HOST, server=server.port, port=port, mode=mode))
        if os.getuid() == 0:
            shutil.chown(folder, USER)
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                [PROGRAM, settings],
                stdout=log,
                stderr=log,
                user=USER if os.getuid() == 0 else None,
                start_new_session=True,
            )
        made = PostgresqlPlace(port)
        try:
            soon(made.answers)
            yield made
        finally:
            process.terminate()
            process.wait(60)
