"""What the tests take from whoever runs them, and what they do not.

Settings of clouds and proxies would lead requests of the tests away from this machine, so a run
forgets them before its first test. What tests write is in memory, where there is such a folder.
Compiled modules are kept, so that not every process compiles all of them. Requests wait for longer.
"""

import json
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2._config
import pytest

_PROXIES: Final = frozenset({"all_proxy", "http_proxy", "https_proxy", "no_proxy"})
# Under this name the processes of pytest-xdist inherit what the first process forgot.
_FORGOTTEN: Final = "RESCIND_TEST_PROXIES"
# More than all tests keep there at a time, in bytes.
_ROOM: Final = 4 * 1024**3


def is_proxy(name: str) -> bool:
    """Whether an environment variable names proxies, or whom to ask without one."""
    return name.lower() in _PROXIES


def forget() -> None:
    """Remove proxies and the settings of clouds from the environment of this process.

    If the tests are to run on endpoints of the caller's choice, the caller's credentials stay,
    since requests are signed with them (CONTRIBUTING.md).
    """
    chosen = any(
        name.startswith("RESCIND_TEST_") and name.endswith("_ENDPOINT") for name in os.environ
    )
    clouds = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT") if chosen else ("AWS_", "AZURE_")
    proxies = {name: os.environ.pop(name) for name in list(os.environ) if is_proxy(name)}
    os.environ.setdefault(_FORGOTTEN, json.dumps(proxies))
    for name in [name for name in os.environ if name.startswith(clouds)]:
        del os.environ[name]
    # The options are this run's, and not those of a run that a test starts.
    os.environ.pop("PYTEST_ADDOPTS", None)


def keep_files_in_memory(memory: Path = Path("/dev/shm")) -> None:
    """Have pytest make temporary folders in memory, if there is room and programs run there.

    On a disk, each change of a store or of a blob waits until the disk has it.
    """
    if not memory.is_dir():
        return
    found = os.statvfs(memory)
    if found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def wait_for_answers() -> None:
    """Let requests without a limit of their own wait for a minute: a busy machine is no fault."""
    limits = httpx2._config.DEFAULT_TIMEOUT_CONFIG
    limits.connect = limits.read = limits.write = limits.pool = 60.0


def trust_no_public_authority() -> None:
    """Load no authorities of the machine into TLS contexts, unless a test names a file of its own.

    Loading some 150 certificates takes 20 ms for each client, and no test uses one.
    """
    load = ssl.SSLContext.load_default_certs

    def load_named(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        if "SSL_CERT_FILE" in os.environ:
            load(context, purpose)

    ssl.SSLContext.load_default_certs = load_named  # type: ignore[assignment]


def keep_compiled_modules() -> None:
    """Let all processes of the tests keep compiled modules, even if the user forbids it.

    Otherwise each of several hundred processes compiles all that it imports.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@contextmanager
def with_proxies() -> Iterator[None]:
    """The proxies that were forgotten, for a program that downloads packages."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in json.loads(os.environ.get(_FORGOTTEN, "{}")).items():
            environment.setenv(name, value)
        yield
