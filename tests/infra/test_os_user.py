"""Who runs the operator's commands, for the audit log."""

import os
import pwd

import pytest

from infra import private_files


def test_the_user_of_the_process() -> None:
    """The user is the one of the process, whatever the environment says about names."""
    expected = pwd.getpwuid(os.getuid()).pw_name
    assert private_files.name({"USER": "mallory", "LOGNAME": "mallory"}) == expected


@pytest.mark.parametrize(
    ("uid", "name"),
    [(0, f"{pwd.getpwuid(0).pw_name} (sudo by alice)"), (4_000_000_000, "4000000000")],
)
def test_who_called_sudo(monkeypatch: pytest.MonkeyPatch, uid: int, name: str) -> None:
    """If root was reached through sudo, its caller is named; no other user can name another."""
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert private_files.name({"SUDO_USER": "alice"}) == name
