"""A root key in an HSM: its address, its PIN, and an HSM that is away."""

import os
from collections.abc import Iterator
from pathlib import Path

import pkcs11
import pytest

from shared import wiring
from shared.adapters import verified
from shared.adapters.pkcs11.root import Pkcs11Root
from shared.adapters.pkcs11.uri import Pkcs11Uri
from shared.authorizer.formats import ed25519
from shared.errors import InvalidSettings, Unavailable
from tests.kit.hsm import MODULE, Hsm, needs_softhsm, softhsm

_WHOLE = "token=a;object=b?module-path=/lib/m.so&pin-source=/etc/pin"


@pytest.fixture
def hsm(tmp_path: Path) -> Iterator[Hsm]:
    with softhsm(tmp_path / "hsm") as made:
        yield made


def _root(address: str) -> Pkcs11Root:
    return Pkcs11Root(Pkcs11Uri.parse(address.removeprefix("pkcs11:")))


def _signs(root: Pkcs11Root) -> bool:
    return ed25519.is_signed(b"data", root.sign(b"data"), public_key=root.public_key)


def test_an_address_names_token_key_module_and_pin() -> None:
    """F706a: An address of RFC 7512 names a key by label or identifier, with escapes."""
    found = Pkcs11Uri.parse(
        "serial=%01%02;id=%ff;type=private?pin-source=file:/etc/a%20pin&module-path=/lib/m.so"
    )
    assert found == Pkcs11Uri(Path("/lib/m.so"), Path("/etc/a pin"), serial=b"\x01\x02", id=b"\xff")
    assert Pkcs11Uri.parse(_WHOLE).token == "a"
    assert Pkcs11Uri.parse(_WHOLE).label == "b"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (_WHOLE + "&pin-value=271828", "contains the PIN"),
        (_WHOLE.replace("object=b", "slot-id=1"), "has the unknown attribute slot-id"),
        (_WHOLE.replace("object=b", "object=b;object=c"), "repeated"),
        (_WHOLE.replace("object=b", "object="), "empty"),
        (_WHOLE.replace("object=b", "object=b;type=cert"), "not for a private key"),
        (_WHOLE.replace("token=a;", ""), "must name a token"),
        (_WHOLE.replace(";object=b", ""), "must name a token"),
        (_WHOLE.replace("/lib/m.so", "m.so"), "module-path, the absolute path"),
        (_WHOLE.replace("&pin-source=/etc/pin", ""), "pin-source, the absolute path"),
    ],
)
def test_an_address_that_is_not_whole_is_refused(address: str, problem: str) -> None:
    """F706b: An address without token, key, module or PIN is refused, with its form and no PIN."""
    with pytest.raises(InvalidSettings, match=problem) as refused:
        Pkcs11Uri.parse(address)
    assert "pkcs11:token=NAME;object=LABEL" in str(refused.value)
    assert "271828" not in str(refused.value)


@needs_softhsm
def test_a_setting_gives_the_root_of_an_hsm(hsm: Hsm, tmp_path: Path) -> None:
    """F706c: `RESCIND_ROOT=pkcs11:…` signs with the key in the HSM."""
    settings = {"RESCIND_STORE": "sqlite::memory:", "RESCIND_BLOBS": f"file:{tmp_path}"}
    wiring.create_master_key(tmp_path / "master.key")
    settings |= {
        "RESCIND_KEY_WRAPPER": f"file:{tmp_path / 'master.key'}",
        "RESCIND_ROOT": hsm.add("root"),
    }
    ports = wiring.assemble(wiring.settings(settings))
    assert isinstance(ports.root, Pkcs11Root)
    assert _signs(ports.root)
    ports.close()


@needs_softhsm
def test_an_hsm_that_was_away_signs_again(hsm: Hsm) -> None:
    """F707a: While the HSM is away nothing is signed; once it is back, the same root signs."""
    root = _root(hsm.add("root"))
    assert _signs(root)
    hsm.tokens.rename(hsm.folder / "away")
    with pytest.raises(Unavailable, match="Connect it"):
        root.sign(b"data")
    (hsm.folder / "away").rename(hsm.tokens)
    assert _signs(root)


@needs_softhsm
def test_a_wrong_pin_is_tried_once(hsm: Hsm) -> None:
    """F707b: A wrong PIN is tried once: after a few attempts an HSM locks itself."""
    address = hsm.add("root")
    right = hsm.pin.read_text()
    hsm.pin.write_text("161803\n")
    root = _root(address)
    with pytest.raises(Unavailable, match="rejected the PIN") as first:
        root.sign(b"data")
    hsm.pin.write_text(right)
    with pytest.raises(Unavailable, match="rejected the PIN") as second:
        root.sign(b"data")
    assert isinstance(first.value.__cause__, pkcs11.PinIncorrect)
    assert second.value.__cause__ is None
    assert _signs(_root(address))


@needs_softhsm
@pytest.mark.parametrize(("old", "new"), [("object=root", "object=other"), ("token=", "token=x")])
def test_a_key_that_is_not_there_is_named(hsm: Hsm, old: str, new: str) -> None:
    """F707c: A token or a key that the HSM does not have is said, and no other key is taken."""
    with pytest.raises(Unavailable, match="no such token"):
        _root(hsm.add("root").replace(old, new)).sign(b"data")


@needs_softhsm
def test_two_keys_of_one_name_are_refused(hsm: Hsm, tmp_path: Path) -> None:
    """F707d: If two keys have the label, neither signs."""
    hsm.add("root")
    (hsm.folder / "root.pem").rename(hsm.folder / "first.pem")
    with pytest.raises(Unavailable, match="not contain exactly one such key pair"):
        _root(hsm.add("root")).sign(b"data")


@needs_softhsm
def test_a_missing_module_or_pin_stops_the_start(hsm: Hsm) -> None:
    """F707e: Without the module or the file of the PIN a process does not start."""
    address = hsm.add("root")
    with pytest.raises(InvalidSettings, match="install the module of the HSM"):
        _root(address.replace(str(MODULE), "/nowhere/module.so"))
    hsm.pin.chmod(0o644)
    with pytest.raises(InvalidSettings, match="chmod 600"):
        _root(address)
    hsm.pin.chmod(0o600)
    hsm.pin.write_bytes(b"\xff\n")
    with pytest.raises(InvalidSettings, match="no PIN in UTF-8"):
        _root(address)


@needs_softhsm
def test_a_module_that_is_none_is_away(hsm: Hsm) -> None:
    """F707f: A file that is no module answers as an HSM that is away."""
    with pytest.raises(Unavailable, match="Connect it"):
        _root(hsm.add("root").replace(str(MODULE), str(hsm.pin))).sign(b"data")


@needs_softhsm
def test_a_process_that_was_forked_signs(hsm: Hsm) -> None:
    """F707g: After a fork the child signs, although its parent had used the module."""
    root = _root(hsm.add("root"))
    assert _signs(root)
    child = os.fork()
    if child == 0:
        os._exit(0 if _signs(root) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), b"x" * 31], ids=len)
def test_a_key_of_small_order_is_no_root(key: bytes) -> None:
    """F708a: A key for which anybody can sign, or none of 32 bytes, is not taken for a root."""
    with pytest.raises(Unavailable, match="anyone can forge"):
        verified.public_key(key)


def test_a_signature_that_does_not_verify_is_not_returned() -> None:
    """F708b: A signature of a broken or dishonest device is never passed on."""
    with pytest.raises(Unavailable, match="an invalid signature"):
        verified.signature(b"data", bytes(64), public_key=b"\x05" * 32)
