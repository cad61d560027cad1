"""Create a virtual environment from a lock file: `python infra/environment.py FOLDER LOCK`.

Only Python is required. uv installs the packages. A recent uv on PATH is used if there is one.
Otherwise, pip first installs the uv version in the lock file. uv does not read pip's configuration,
so this program passes on its indexes, certificates and proxies.
"""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_UV_SINCE: Final = (0, 13)

# Options of pip's configuration, and the equivalent variables of uv.
_VARIABLES: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}
# Variables of the user take precedence, also under their older names.
_OLDER: Final = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}


class CannotInstall(Exception):
    """The missing part, or the output of pip or uv."""


def main() -> None:
    """Create the environment, or add missing packages."""
    folder, lock = map(Path, sys.argv[1:])
    print(f"Installing the packages of {lock} in {folder} (once)", flush=True)
    python = folder / "bin" / "python"
    try:
        uv = _uv(folder) or _uv_by_pip(folder, lock)
        if not python.exists():
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
        install([uv], lock, ["--python", str(python)], pythons=[str(python)])
    except CannotInstall as error:
        sys.exit(f"Cannot install: {error}")


def install(
    uv: Iterable[str], lock: Path, options: Iterable[str], *, pythons: Iterable[str] = ()
) -> None:
    """Install the packages of a lock file with this uv command, verifying hashes.

    The first of `pythons` and the running Python that has pip provides pip's configuration. Raises
    `CannotInstall`.
    """
    settings = _pip_settings([*pythons, sys.executable, f"{sys.base_prefix}/bin/python3"])
    command = [*uv, "pip", "install", "--quiet", "--require-hashes", "--no-deps", *options]
    if settings.pop("no-index", "") in {"1", "on", "true", "yes"}:
        command.append("--no-index")
    from_pip = {
        variable: ("," if variable == "UV_FIND_LINKS" else " ").join(settings[option].split())
        for option, variable in _VARIABLES.items()
        if option in settings and _OLDER.get(variable, variable) not in os.environ
    }
    # With several indexes, pip accepts a match from any. The hashes decide.
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"} | from_pip | os.environ
    _run([*command, "--requirement", str(lock)], variables=variables)


def _uv(folder: Path) -> str | None:
    """Return the path of a uv in the environment, next to this Python, or recent enough on PATH."""
    for path in (folder / "bin" / "uv", Path(sys.executable).with_name("uv")):
        if path.exists():
            return str(path)
    uv = shutil.which("uv")
    version = re.match(r"uv (\d+)\.(\d+)", _run([uv, "--version"]) if uv else "")
    return uv if version and (int(version[1]), int(version[2])) >= _UV_SINCE else None


def _uv_by_pip(folder: Path, lock: Path) -> str:
    """Install the uv of the lock file into a new environment with pip. Return its path."""
    python = str(folder / "bin" / "python")
    create = [sys.executable, "-m", "venv", str(folder)]
    if importlib.util.find_spec("pip"):
        # Using this Python's pip is faster than installing another one.
        _run([*create, "--without-pip"])
        pip = [sys.executable, "-m", "pip", "--python", python]
    elif importlib.util.find_spec("ensurepip"):
        _run(create)
        pip = [python, "-m", "pip"]
    else:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise CannotInstall(
            f"this Python ({sys.executable}) has neither pip nor ensurepip. On Debian and Ubuntu, "
            f"run: sudo apt install {version}-venv. Elsewhere, install pip or uv."
        )
    pinned = re.search(r"^uv==.*(\n .*)*", lock.read_text(), re.MULTILINE)
    options = ["-qq", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    requirement = ["--requirement", "/dev/stdin"]
    _run([*pip, "install", *options, *requirement], stdin=pinned[0] if pinned else "")
    return str(folder / "bin" / "uv")


def _pip_settings(pythons: Iterable[str]) -> dict[str, str]:
    """Return pip's configuration for `pip install`, by option. Empty without pip."""
    for python in dict.fromkeys(pythons):
        with suppress(CannotInstall, OSError):
            output = _run([python, "-m", "pip", "config", "list"])
            break
    else:
        return {}
    lines = [line.partition("=") for line in output.splitlines()]
    settings = {name: str(ast.literal_eval(value)) for name, _, value in lines}
    # As in pip, later sections take precedence.
    return {
        name.removeprefix(section): value
        for section in ("global.", "install.", ":env:.")
        for name, value in settings.items()
        if name.startswith(section)
    }


def _run(command: list[str], *, stdin: str = "", variables: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 (commands of this module)
        command, input=stdin, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CannotInstall(f"{done.stdout}{done.stderr}".strip())
    return done.stdout


if __name__ == "__main__":
    main()
