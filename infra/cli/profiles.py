"""Address and credential of the service, from a profile or the environment.

A profile is a private folder in `~/.config/rescind` (or `$RESCIND_CONFIG_DIR`). It contains
`profile.json`, and files that commands keep between calls.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from infra import private_files
from infra.cli.errors import UsageError
from shared.authorizer import files
from shared.authorizer.http1 import is_here, parse_api_key
from shared.model.identities.sessions import PREFIX

DEFAULT: Final = "default"
_FILE: Final = "profile.json"
# The types of the members that are not text.
_TYPES: Final = {"allow_http": bool}


@dataclass(frozen=True)
class Profile:
    """The address of a service, without a trailing `/`, and the credential for it.

    `api_key` may also be the secret of a session. `expires_at` is then the session's expiry, and
    `renewal` the command that signs in again. Without a credential, the client is unauthenticated.
    `folder` may not exist yet. `allow_http` permits sending the key without TLS to another machine.
    """

    folder: Path = field(repr=False)
    url: str
    api_key: str = field(repr=False, default="")
    allow_http: bool = False
    expires_at: str | None = None
    renewal: str | None = None

    @property
    def is_session(self) -> bool:
        """Whether the credential is a session."""
        return self.api_key.startswith(PREFIX)


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all profiles."""
    if chosen := environment.get("RESCIND_CONFIG_DIR"):
        return Path(chosen)
    try:
        return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rescind"
    except RuntimeError:
        raise UsageError("there is no home folder; set HOME or RESCIND_CONFIG_DIR.") from None


def folder_of(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a profile. Raises `UsageError` if the name is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError("a profile name has 1 to 64 letters, digits, '.', '_' and '-'.")
    return home(environment) / name


def names(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of the existing profiles."""
    return sorted(each.parent.name for each in home(environment).glob(f"*/{_FILE}"))


def load(name: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """Return the profile, or the address and key in `RESCIND_URL` and `RESCIND_API_KEY`.

    Address and key come from the same source, so a key never goes to the address of another
    profile. Raises `UsageError` if there is no profile, and `InvalidSettings` if others can change
    its file.
    """
    folder = folder_of(name, environment)
    url, api_key = environment.get("RESCIND_URL"), environment.get("RESCIND_API_KEY")
    if url and api_key:
        return validate(
            Profile(folder, url, api_key, environment.get("RESCIND_ALLOW_HTTP", "") == "1")
        )
    if url or api_key:
        raise UsageError("set both RESCIND_URL and RESCIND_API_KEY, or neither.")
    return load_saved(name, environment)


def is_replaced(profile: Profile, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment overrides a saved profile."""
    return bool(environment.get("RESCIND_API_KEY")) and (profile.folder / _FILE).exists()


def load_saved(name: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """Return the saved profile, without the overrides of `load`. Raises the same errors."""
    folder = folder_of(name, environment)
    path = folder / _FILE
    if not path.exists():
        option = "" if name == DEFAULT else f" --profile {name}"
        raise UsageError(f"there is no profile {name}; to create it, run: rescind login{option}")
    private_files.check_folder(folder)
    private_files.check_file(path)
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        if any(not isinstance(value, _TYPES.get(name, str)) for name, value in fields.items()):
            raise TypeError
        return validate(Profile(folder, **fields))
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not a profile; log in again.") from error


def save(profile: Profile) -> None:
    """Write the profile with owner-only access. Raises `InvalidSettings` as `load` does."""
    profile.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    private_files.check_folder(profile.folder)
    fields = {
        name: value
        for name, value in asdict(profile).items()
        if name != "folder" and value is not None
    }
    files.replace(profile.folder / _FILE, json.dumps(fields, indent=2).encode() + b"\n")


def forget(name: str) -> bool:
    """Remove the address and credential of a profile. Returns whether there were any."""
    path = folder_of(name) / _FILE
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def validate(profile: Profile) -> Profile:
    """Return the profile. Raises `UsageError` if its address or key cannot be used."""
    try:
        return reaching(replace(profile, api_key=parse_api_key(profile.api_key)))
    except ValueError as error:
        raise UsageError(f"{error}.") from None


def reaching(profile: Profile) -> Profile:
    """Return the profile, even without a key. Raises `UsageError` if its address is not usable."""
    try:
        parts = urlsplit(profile.url)
        # An invalid port raises `ValueError`.
        is_address = parts.hostname is not None and parts.port != 0
        is_plain = not parts.query and parts.username is None
        is_usable = parts.scheme in {"http", "https"} and is_address and is_plain
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(
            "the service URL is invalid; use a URL such as https://rescind.example.com"
        )
    if not profile.allow_http and not is_private(profile.url):
        raise UsageError(
            "without TLS, others on the network can read the API key; use https, or allow http "
            "(rescind login --allow-http, RESCIND_ALLOW_HTTP=1)."
        )
    return replace(profile, url=profile.url.rstrip("/"))


def is_private(url: str) -> bool:
    """Return whether traffic to a URL is private, by TLS or because it stays in this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_here(parts.hostname or ""))
