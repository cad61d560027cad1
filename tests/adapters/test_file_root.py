"""A root key in a file: its form, its mode, its passphrase."""

import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from shared.adapters.local.file_root import FileRoot, read_passphrase
from shared.errors import InvalidSettings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "root.key"


def _private(path: Path, data: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_a_root_key_is_random_and_its_owners_alone(path: Path, tmp_path: Path) -> None:
    """F701a, S3: A new root key is PKCS#8 in a file that nobody else can read, nothing beside."""
    one, two = (FileRoot.create(each) for each in (path, tmp_path / "another.key"))
    assert one.public_key != two.public_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert [each.name for each in path.parent.iterdir()] == ["root.key"]
    assert FileRoot(path).public_key == one.public_key


def test_openssl_reads_the_key_and_verifies_its_signature(path: Path, tmp_path: Path) -> None:
    """F701b: OpenSSL, which shares no code, reads the file and verifies a signature."""
    signature = FileRoot.create(path).sign(bytes(49))
    data, signed = tmp_path / "data.bin", tmp_path / "signature"
    data.write_bytes(bytes(49))
    signed.write_bytes(signature)
    verify = ["openssl", "pkeyutl", "-verify", "-rawin"]
    checked = subprocess.run(
        [*verify, "-inkey", path, "-in", data, "-sigfile", signed],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert checked.returncode == 0, checked.stderr


def test_a_root_key_is_never_replaced(path: Path) -> None:
    """F701c: A second creation is refused, and the key stays."""
    FileRoot.create(path)
    key = path.read_bytes()
    with pytest.raises(InvalidSettings, match="never replaced"):
        FileRoot.create(path)
    assert path.read_bytes() == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o700, 0o644])
def test_a_key_open_to_others_is_refused(path: Path, mode: int) -> None:
    """F701d, S3: A root key that others can use is not used."""
    FileRoot.create(path)
    path.chmod(mode)
    with pytest.raises(InvalidSettings, match="chmod 600"):
        FileRoot(path)


def test_a_missing_key_is_refused(path: Path) -> None:
    """F701e: To open a root never makes one: clients would refuse what it signs."""
    with pytest.raises(InvalidSettings, match=r"cannot be read.*Restore it from its backup"):
        FileRoot(path)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"a key", bytes(32), b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_refused(path: Path, content: bytes) -> None:
    """F701f: Other bytes are a mix-up, not a key."""
    with pytest.raises(InvalidSettings, match="not a PKCS#8 private key"):
        FileRoot(_private(path, content))


def test_a_key_of_another_algorithm_is_refused(path: Path) -> None:
    """F701g: A key of another algorithm cannot sign documents, and is named as what it is."""
    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(InvalidSettings, match="not an Ed25519 key"):
        FileRoot(_private(path, pem))


def _encrypted(path: Path, passphrase: str) -> Path:
    """A key as an operator makes one with OpenSSL."""
    cipher = ["-aes256", "-pass", f"pass:{passphrase}"]
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", *cipher, "-out", path],
        check=True,
        capture_output=True,
        timeout=30,
    )
    path.chmod(0o600)
    return path


def test_a_passphrase_opens_the_key(tmp_path: Path) -> None:
    """F702a: A key of OpenSSL opens with the first line of the file of its passphrase."""
    path = _encrypted(tmp_path / "root.key", "open sesame")
    secret = _private(tmp_path / "passphrase", b"open sesame\r\nanother line\n")
    assert len(FileRoot(path, passphrase=read_passphrase(secret)).sign(b"data")) == 64


@pytest.mark.slow
def test_openssl_opens_a_key_with_its_passphrase(path: Path) -> None:
    """F702d, S3: OpenSSL opens a key that was made with a passphrase, which scrypt makes costly."""
    key = FileRoot.create(path, passphrase="öffne dich".encode()).public_key
    assert FileRoot.is_encrypted(path)
    opened = subprocess.run(
        ["openssl", "pkey", "-in", path, "-passin", "pass:öffne dich", "-pubout"],
        capture_output=True,
        check=True,
        timeout=30,
    )
    read = load_pem_public_key(opened.stdout)
    assert isinstance(read, Ed25519PublicKey)
    assert read.public_bytes_raw() == key
    parsed = subprocess.run(
        ["openssl", "asn1parse", "-in", path],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    assert ":scrypt" in parsed
    assert ":4000\n" in parsed


def test_a_wrong_passphrase_is_named(tmp_path: Path) -> None:
    """F702b: A wrong or missing passphrase is said, and is never repeated."""
    path = _encrypted(tmp_path / "root.key", "open sesame")
    with pytest.raises(
        InvalidSettings, match="cannot be decrypted with this passphrase"
    ) as refused:
        FileRoot(path, passphrase=b"sesame street")
    assert "street" not in str(refused.value)
    with pytest.raises(InvalidSettings, match=r"encrypted.*RESCIND_ROOT_PASSPHRASE_FILE"):
        FileRoot(path)


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [(b"", 0o600, "no passphrase"), (b"\nx", 0o600, "no passphrase"), (b"x", 0o644, "chmod 600")],
)
def test_a_file_without_a_passphrase_is_refused(
    tmp_path: Path, content: bytes, mode: int, problem: str
) -> None:
    """F702c, S3: A file of a passphrase that is empty or open to others is not used."""
    file = _private(tmp_path / "passphrase", content)
    file.chmod(mode)
    with pytest.raises(InvalidSettings, match=problem):
        read_passphrase(file)
    with pytest.raises(InvalidSettings, match="cannot be read"):
        read_passphrase(tmp_path / "missing")
