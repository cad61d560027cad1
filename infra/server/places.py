"""Where a server keeps its data: in a local folder, or in the configured stores."""

import logging
import multiprocessing
import os
import signal
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeAlias

from functions.trust.state import has_documents
from infra import data_folder, private_files
from shared import wiring
from shared.errors import InvalidSettings, NotFound, RescindError
from shared.operations.base import tenants
from shared.operations.operator import deployment, onboarding, readiness, restored
from shared.ports import Ports

_NO_ROOT: Final = "there are no trust documents. Run rescind setup, or set RESCIND_ROOT."

_log = logging.getLogger(__name__)

# Longer than the timeouts of all adapters together.
_PROBE_SECONDS: Final = 60

_fork: Final = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class FolderSource:
    """A data folder on one machine. `key` is the master key file if it is elsewhere.

    The first start creates the tenant and its admin key.
    """

    data: Path
    key: Path | None = None
    tenant: str = "local"

    def __str__(self) -> str:
        return str(self.data)

    def command(self, name: str) -> str:
        """Return a `rescind` command for this tenant."""
        keys = f" --key-file {self.key}" if self.key else ""
        return f"rescind {name} {self.tenant} --data {self.data}{keys}"

    @property
    def _admin_key(self) -> Path:
        return self.data / "admin.key"

    def prepare(self) -> None:
        """Create the folder and its key, unless they exist. Set the variables of the stores.

        The other processes read the variables. Raises `InvalidSettings` or `FolderInUse`.
        """
        data_folder.prepare(self.data, self.key)
        os.environ.update(data_folder.environment(self.data, self.key))
        if not wiring.is_read_only():
            data_folder.use(self.data)

    def begin(self, ports: Ports) -> None:
        """Create the tenant and its admin key, unless the tenant exists.

        The caller must be allowed to write. Raises `InvalidSettings`, `DataCorrupt` or
        `Unavailable`.
        """
        deployment.mark_schema(ports)
        try:
            tenants.find(ports, self.tenant)
        except NotFound:
            has_tenants = any(True for _ in tenants.directory(ports))
            data_folder.check_whole(self.data, has_tenants=has_tenants)
            if self._admin_key.exists():
                raise InvalidSettings(
                    f"{self._admin_key} exists, but the tenant {self.tenant} does not;"
                    " move the file away."
                ) from None
            user = private_files.name()
            _, created = onboarding.create_tenant(ports, handle=self.tenant, user=user)
            data_folder.write_secret(self._admin_key, created.secret)
            print(f"Created the tenant {self.tenant}.")

    def scratch(self, stack: ExitStack) -> Path:  # noqa: ARG002 (the folder stays)
        """Return the data folder itself, for files that are needed only while the server runs."""
        return self.data

    def keys(self) -> str:
        """Return a message that names the file of the first admin key."""
        if self._admin_key.exists():
            return f"Its admin key is in {self._admin_key}."
        return (
            f"There is no {self._admin_key}; to create an admin key, run:"
            f" {self.command('admin-key')}"
        )


@dataclass
class StoreSource:
    """The configured stores, which several servers may share. A start creates no tenant."""

    tenant: str | None = None
    _has_tenants: bool = True

    def __str__(self) -> str:
        return os.environ["RESCIND_STORE"]

    def command(self, name: str) -> str:
        """Return a `rescind` command for a tenant."""
        return f"rescind {name} TENANT"

    def prepare(self) -> None:
        """Check the settings, and that the key exists. Only `rescind setup` creates it.

        Raises `InvalidSettings` or `FolderInUse`.
        """
        try:
            settings = wiring.settings(os.environ)
        except InvalidSettings as error:
            remedy = "Set all three of them, or none to serve a data folder (--data)."
            raise InvalidSettings(*error.problems, remedy) from None
        key = Path(settings.key_wrapper.location)
        if settings.key_wrapper.scheme == "file" and not key.exists():
            raise InvalidSettings(
                f"RESCIND_KEY_WRAPPER: {key} does not exist.",
                "If the stores are new, run: rescind setup. It creates the file, which all servers"
                " on these stores must have. Otherwise restore its copy.",
            )
        folder = data_folder.of_store(os.environ["RESCIND_STORE"])
        if folder is not None and not wiring.is_read_only():
            data_folder.use(folder)

    def begin(self, ports: Ports) -> None:
        """Write no data, because `rescind setup` and `rescind upgrade` do so."""
        self._has_tenants = any(True for _ in tenants.directory(ports))
        root = wiring.default_root(wiring.settings(os.environ))
        if root is not None and not root.exists():
            remedy = data_folder.LOST_ROOT if has_documents(ports) else _NO_ROOT
            _log.warning("%s is missing: %s", root, remedy)

    def scratch(self, stack: ExitStack) -> Path:
        """Return a new folder, which is removed when the server stops."""
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rescind-")))

    def keys(self) -> str:
        """Return a message that names the command for creating an admin key."""
        if self._has_tenants:
            return f"To create an admin key, run: {self.command('admin-key')}"
        return "There is no tenant yet; to create one, run: rescind setup --tenant NAME"


# The data of a server.
DataSource: TypeAlias = FolderSource | StoreSource


def choose_source(folder: Path | None, key: Path | None) -> DataSource:
    """Return the place for `--data` and `--key-file`; without them the environment, then `.data`.

    Raises `InvalidSettings` if both the options and the environment name a store.
    """
    settings = data_folder.settings_in(os.environ)
    if not settings:
        return FolderSource(data_folder.resolve_folder(folder, os.environ) or Path(".data"), key)
    if folder is not None:
        raise InvalidSettings(f"--data and {settings[0]} name two stores; give one.")
    if key is not None:
        raise InvalidSettings("--key-file is for a data folder; set RESCIND_KEY_WRAPPER instead.")
    return StoreSource()


def probe() -> None:
    """Raise `InvalidSettings` if a store does not respond, or a tenant needs a recovery first.

    A child process with its own ports runs the probes. Threads of obstore do not survive a fork, so
    if this process used it, its later children could not.
    """
    receiver, sender = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_send_problems, args=(sender,), name="probe")
    process.start()
    sender.close()
    problems: list[str] = ["The stores do not respond."]
    try:
        if receiver.poll(_PROBE_SECONDS):
            problems = receiver.recv()
    finally:
        process.kill()
        process.join()
        receiver.close()
    if problems:
        raise InvalidSettings(*problems)


def _send_problems(sender: Connection) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    problems = []
    with closing(wiring.assemble(wiring.settings(os.environ))) as ports:
        for probe in readiness.read_probes(ports):
            try:
                probe.run()
            except RescindError as error:
                cause = error if isinstance(error, InvalidSettings) else error.__cause__ or error
                setting = f"{probe.setting}: {os.environ[probe.setting]}"
                problems.append(f"{setting} cannot be used: {cause}")
        if not problems and not wiring.is_read_only():
            try:
                restored.check_recovered(ports)
            except RescindError as error:
                problems.append(str(error))
        sender.send(problems)
