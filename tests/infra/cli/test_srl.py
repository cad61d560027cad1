"""`rescind srl`, against a server and on saved files."""

import json
from pathlib import Path

from tests.infra.cli.conftest import Shell


def test_a_list_is_fetched_verified_and_compared(admin: Shell, tmp_path: Path) -> None:
    """F417e: A fetched list is verified offline; exit code 3 if it has the warrant asked for."""
    files = [tmp_path / "old.json", tmp_path / "srl.json"]
    for number, file in enumerate(files):
        assert admin.run("revoke", f"svc_wrt_srl-{number}", "--reason", "stolen").code == 0
        assert admin.run("srl", "publish").code == 0
        assert admin.run("srl", "fetch", file, "--keys", tmp_path / "keys.json").code == 0
    keys = json.loads((tmp_path / "keys.json").read_bytes())
    signer = admin.json("srl", "signers", "list")["keys"][0]["public_key"]
    assert keys["keys"][0]["public_key"] == signer
    verify = ("srl", "verify", files[1], "--key", signer, "--keys", tmp_path / "keys.json")
    assert admin.run(*verify).code == 0
    assert admin.run(*verify, "--warrant", "svc_wrt_srl-1").code == 3
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(files[1].read_bytes().replace(b"svc_wrt_srl-1", b"svc_wrt_srl-2"))
    assert admin.run("srl", "verify", damaged, "--key", signer).code == 1
    compared = admin.run("srl", "diff", *files)
    assert compared.out == "+ svc_wrt_srl-1\n"
    version = json.loads(files[0].read_bytes())["payload"]["Version"]
    assert admin.run("srl", "diff", str(version), files[1]).out == compared.out


def test_the_list_in_force_is_looked_up(admin: Shell) -> None:
    """F417f: `srl check` verifies the list in force; exit code 3 if a warrant is on it."""
    assert admin.run("revoke", "svc_wrt_srl-9", "--reason", "stolen").code == 0
    assert admin.run("srl", "publish").code == 0
    found = admin.run("srl", "check", "svc_wrt_srl-9", "svc_wrt_srl-10")
    assert found.code == 3
    assert found.out.splitlines()[1:] == [
        "svc_wrt_srl-9: revoked",
        "svc_wrt_srl-10: not on the SRL",
    ]
    assert admin.run("srl", "check", "svc_wrt_srl-10").code == 0


def test_the_status_says_what_waits(admin: Shell) -> None:
    """F436, F438: `srl status` shows what waits, and `srl versions` what was published."""
    published = admin.json("srl", "publish")
    assert admin.run("revoke", "svc_wrt_srl-11", "--reason", "stolen").code == 0
    found = admin.json("srl", "status")
    assert (found["version"], found["pending"]) == (published["version"], 1)
    assert found["expires_at"] in admin.run("srl", "status").out
    newest = admin.json("srl", "versions", "-n", "1")["versions"]
    assert [each["version"] for each in newest] == [published["version"]]
    assert newest[0]["key_id"] in admin.run("srl", "versions").out
