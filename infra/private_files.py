"""Checks that a folder and its files belong to this user and are private."""

import logging
import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from shared.errors import InvalidSettings

_ROOT = 0
_OTHERS = 0o077
_OTHERS_WRITE = 0o022

_log = logging.getLogger("rescind")


def check_folder(folder: Path) -> None:
    """Check that this user owns the folder. Make it private if it is readable by others.

    Raises `InvalidSettings` if the folder belongs to another user or is reached by another user's
    link. Also raises it if others can write to the folder, because they may have added files.
    """
    link = folder.lstat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (os.geteuid(), _ROOT):
        owner = _user_name(link.st_uid)
        raise InvalidSettings(f"{folder} is a link that {owner} made. Name the folder itself.")
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidSettings(f"{folder} is not a folder.")
    _check_owner(folder, status)
    if status.st_mode & _OTHERS_WRITE:
        _refuse_writable(folder, status, closed=0o700)
    if status.st_mode & _OTHERS:
        folder.chmod(0o700)
        _log.warning("%s was readable by others; its mode is 0700 now", folder)


def check_file(path: Path) -> None:
    """Check that this user owns the file, if it exists. Make it private if others can read it.

    Raises `InvalidSettings` as `check_owner` does, and if others can write to the file.
    """
    check_owner(path)
    if not path.exists():
        return
    status = path.stat()
    if status.st_mode & _OTHERS_WRITE:
        _refuse_writable(path, status, closed=0o600)
    if status.st_mode & _OTHERS:
        path.chmod(0o600)


def check_owner(path: Path) -> None:
    """Check that the file, if it exists, is a regular file of this user without other names.

    Raises `InvalidSettings` if the file belongs to another user, is a link, or has a second name.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidSettings(f"{path} is a link, or is not a file. Put the file itself there.")
    _check_owner(path, status)
    if status.st_nlink > 1:
        remedy = f"Remove that name; to find it: find / -xdev -samefile {path}"
        raise InvalidSettings(f"{path} has a second name (a hard link). {remedy}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    user, owner = _user_name(os.geteuid()), _user_name(status.st_uid)
    if status.st_uid != os.geteuid():
        problem = f"{path} belongs to {owner}, but this process runs as {user}."
        remedy = f"Run as {owner}, or run: sudo chown -R {user} {path}"
        raise InvalidSettings(f"{problem} {remedy}")


def _refuse_writable(path: Path, status: os.stat_result, *, closed: int) -> NoReturn:
    problem = f"{path} is writable by others (mode {stat.S_IMODE(status.st_mode):04o}), "
    remedy = f"Check its contents, then run: chmod {closed:o} {path}"
    raise InvalidSettings(f"{problem}who may have changed it. {remedy}")


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def name(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the user of this process, or the user number without a name.

    If `sudo` started the process, the result includes the calling user from `environment`:
    `root (sudo by alice)`.
    """
    uid, caller = os.getuid(), environment.get("SUDO_USER", "")
    user = _user_name(uid)
    return f"{user} (sudo by {caller})" if caller and uid == _ROOT else user
