"""Who runs the operator's commands, for the audit log."""

import os
import pwd

import pytest

from infra import private_files


def test_the_user_of_the_process() -> None:
    """The user is the one of the process, whatever the environment says about names."""
    expected = pwd.getpwuid(os.getuid()).pw_name
    assert private_files.name({"USER": "mallory", "LOGNAME": "mallory"}) == expected


def test_who_called_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """If root was reached through sudo, the caller of sudo is named as well."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert (
        private_files.name({"SUDO_USER": "alice"}) == f"{pwd.getpwuid(0).pw_name} (sudo by alice)"
    )


def test_another_user_does_not_claim_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not root cannot name another by a variable."""
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert private_files.name({"SUDO_USER": "alice"}) == "4000000000"
