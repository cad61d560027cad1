"""An HSM in software, SoftHSM, with a token of the test's own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

PIN: Final = "271828"
MODULE: Final = Path("/usr/lib/softhsm/libsofthsm2.so")
_TOKEN: Final = "Rescind's roots"
_SETTINGS: Final = (
    "directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n"
)


def has_softhsm() -> bool:
    """Whether Debian's package softhsm2 is there."""
    return shutil.which("softhsm2-util") is not None and MODULE.exists()


needs_softhsm = pytest.mark.skipif(not has_softhsm(), reason="no SoftHSM (softhsm2)")


@dataclass(frozen=True)
class Hsm:
    """A token, its settings, and the file of its PIN."""

    folder: Path

    @property
    def tokens(self) -> Path:
        """Where the token is."""
        return self.folder / "tokens"

    @property
    def pin(self) -> Path:
        return self.folder / "pin"

    def uri(self, label: str) -> str:
        """The address of a key in it."""
        token = _TOKEN.replace("'", "%27").replace(" ", "%20")
        return f"pkcs11:token={token};object={label}?module-path={MODULE}&pin-source={self.pin}"

    def add(self, label: str) -> str:
        """Import a new key, as an operator does; return its address."""
        pem = self.folder / f"{label}.pem"
        _run("openssl", "genpkey", "-algorithm", "ed25519", "-out", pem)
        number = f"{len(list(self.folder.glob('*.pem'))):02}"
        token = ["--token", _TOKEN, "--pin", PIN]
        _run("softhsm2-util", "--import", pem, *token, "--label", label, "--id", number)
        return self.uri(label)


@contextmanager
def softhsm(folder: Path) -> Iterator[Hsm]:
    """A SoftHSM whose tokens are below the folder, for this process and those that it starts."""
    made = Hsm(folder)
    made.tokens.mkdir(parents=True)
    made.pin.write_text(f"{PIN}\n")
    made.pin.chmod(0o600)
    settings = folder / "softhsm2.conf"
    settings.write_text(_SETTINGS.format(tokens=made.tokens))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SOFTHSM2_CONF", str(settings))
        pins = ["--pin", PIN, "--so-pin", "314159"]
        _run("softhsm2-util", "--init-token", "--free", "--label", _TOKEN, *pins)
        yield made


def _run(*command: str | Path) -> None:
    ran = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
