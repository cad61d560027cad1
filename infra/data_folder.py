"""One folder that holds all of a deployment on one machine: store, blobs, master key."""

import os
from collections.abc import Mapping
from pathlib import Path

from shared.adapters.local_keys import KeyFile
from shared.errors import InvalidSettings
from shared.model.srl import version_of


def environment(folder: Path) -> dict[str, str]:
    """The settings that keep everything in `folder` (see `shared.settings`)."""
    return {
        "SVC_STORE": f"sqlite:{folder / 'svc.db'}",
        "SVC_BLOBS": f"file:{folder / 'blobs'}",
        "SVC_KEYS": f"file:{folder / 'master.key'}",
    }


def prepare(folder: Path) -> None:
    """Make the folder with its master key, for its owner only, where there is none yet.

    Raises `InvalidSettings` where it cannot be made, where data is there without its key (a new
    key would open none of the seeds that the old one sealed), or where `check_whole` does.
    """
    key = folder / "master.key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings([f"{folder} cannot be made: {error.strerror}."]) from error
    check_whole(folder)
    if key.exists():
        return
    if (folder / "svc.db").exists():
        raise InvalidSettings([f"{key} is missing, but {folder} has data. Restore its copy."])
    KeyFile.create(key)


def check_whole(folder: Path, *, has_tenants: bool = True) -> None:
    """Refuse an empty store beside what is left of an older one, whose records it lacks.

    `has_tenants` is false if the store was opened and holds no tenant. Raises `InvalidSettings`.
    """
    database = folder / "svc.db"
    is_empty = not database.is_file() or database.stat().st_size == 0 or not has_tenants
    if not is_empty or not _has_served(folder):
        return
    raise InvalidSettings(
        [
            f"{database} is missing or empty: the data is lost or incomplete.",
            f"{folder} has an admin key, or lists that were published, of lost records.",
            "Restore svc.db from a backup, then run the command recover (docs/deploy.md, restore).",
            "To begin a new service instead, choose another folder.",
        ]
    )


def _has_served(folder: Path) -> bool:
    """Whether a service has run here. A first start that was stopped leaves one empty list."""
    lists = folder.glob("blobs/srl/*/lists/*.json")
    return (folder / "admin.key").exists() or any(version_of(each.name) > 1 for each in lists)


def chosen(folder: Path | None, environment_: Mapping[str, str]) -> dict[str, str]:
    """The environment, with its settings replaced by those of `folder` where one is given.

    Raises `InvalidSettings` where `folder` is no data folder: opening it would begin one.
    """
    if folder is None:
        return dict(environment_)
    if not (folder / "master.key").exists():
        raise InvalidSettings([f"{folder} is no data folder: it holds no master.key."])
    check_whole(folder)
    return dict(environment_) | environment(folder)


def write_secret(path: Path, secret: str) -> None:
    """Write a secret to a new file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 (a descriptor, no path)
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
