"""A certificate authority of OpenSSL's, with as many revoked certificates as are asked for."""

import secrets
import shutil
import subprocess
from pathlib import Path

from tests.bench.report import NotMeasured

_CONFIGURATION = """
[ca]
default_ca = bench
[bench]
database = index.txt
certificate = ca.pem
private_key = ca.key
default_md = default
default_crl_days = 1
"""
_SERIAL = 3


def is_here() -> bool:
    """Whether OpenSSL's command is on PATH."""
    return shutil.which("openssl") is not None


class Authority:
    """A CA in a new folder. Raises `NotMeasured` where this OpenSSL cannot make one."""

    def __init__(self, folder: Path, *, revoked: int) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "ca.cnf").write_text(_CONFIGURATION)
        (folder / "index.txt").touch()
        self._openssl("genpkey", "-algorithm", "ed25519", "-out", "ca.key")
        request = ["req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=bench"]
        self._openssl(*request, "-days", "30", "-batch", "-out", "ca.pem")
        self._ca("-revoke", "ca.pem", "-batch")
        self._repeat(revoked)

    def generate(self) -> None:
        """Write the revocation list of all that is revoked."""
        self._ca("-gencrl", "-out", "crl.pem")

    def _repeat(self, number: int) -> None:
        """Repeat the entry that OpenSSL wrote, each time with another serial number."""
        entry = (self._folder / "index.txt").read_text().split("\t")
        length = len(entry[_SERIAL])
        with (self._folder / "index.txt").open("w") as index:
            for _ in range(number):
                # No leading zero, which OpenSSL would not write.
                entry[_SERIAL] = "4" + secrets.token_hex(length)[1:length].upper()
                index.write("\t".join(entry))

    def _ca(self, *arguments: str) -> None:
        self._openssl("ca", "-config", "ca.cnf", *arguments)

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self._folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotMeasured(f"openssl {arguments[0]}: {done.stderr.strip()}")
