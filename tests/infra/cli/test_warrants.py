"""The offline verifier of warrants, on warrants and lists that the service made."""

import base64
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.cli import __main__ as start
from shared.model.signing_keys import SigningKey
from shared.operations.changes import warrants
from shared.operations.changes.warrants import SignRequest
from shared.operations.lists import in_force
from shared.ports import Ports
from tests.infra.commands import Command
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded


@dataclass
class World:
    """A tenant, a key of it, and a folder in which a verifier finds what it is given."""

    ports: Ports
    tenant: Tenant
    key: SigningKey
    folder: Path
    clock: Clock
    command: Command

    def signed(self, name: str = "svc_wrt_a", payload: bytes = b"may pay", **options: int) -> str:
        """A warrant in base64; `options` say in how much time it expires."""
        end = self.clock() + timedelta(**options) if options else None
        order = SignRequest(payload, warrant_id=name, expires_at=end)
        made = warrants.sign(self.ports, self.tenant.operator, key_id=self.key.id, order=order)
        assert made.message is not None
        return made.message

    def publish(self) -> None:
        self.tenant.regenerate(self.ports)
        head = in_force.read_srl_head(self.ports, self.tenant.id)
        (self.folder / "srl.json").write_bytes(in_force.read_srl_body(self.ports, head))

    def arguments(self, warrant: str | bytes, **options: str) -> list[str]:
        file = self.folder / "warrant"
        file.write_bytes(warrant if isinstance(warrant, bytes) else warrant.encode())
        given = {
            "tenant": self.tenant.id,
            "key": self.key.public_key,
            "list": str(self.folder / "srl.json"),
            "list_key": in_force.read_active_signer(self.ports, self.tenant.id).public_key,
        } | options
        pairs = ([f"--{name.replace('_', '-')}", value] for name, value in given.items())
        return [*(each for pair in pairs for each in pair), str(file)]

    def run(self, *arguments: str) -> tuple[int, str]:
        return self.command.verdict(*arguments)

    def verify(self, warrant: str | bytes, **options: str) -> tuple[int, str]:
        return self.run(*self.arguments(warrant, **options))


@pytest.fixture
def world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    clock = Clock(datetime.now(UTC).replace(microsecond=0))
    ports = embedded(tmp_path, clock)
    tenant = Tenant.create(ports)
    command = Command(start.main, capsys, monkeypatch, ("warrants", "verify"))
    made = World(ports, tenant, tenant.key(ports), tmp_path, clock, command)
    made.publish()
    yield made
    close(ports)


def test_a_warrant_that_holds(world: World) -> None:
    """Exit code 0, and all that the warrant says."""
    code, said = world.verify(world.signed(hours=1))
    start = world.clock()
    assert code == 0
    end = (start + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert said.splitlines()[:4] == [
        "valid",
        "warrant: svc_wrt_a",
        f"issuer:  {world.tenant.id}",
        f"issued:  {start:%Y-%m-%dT%H:%M:%SZ}",
    ]
    assert f"expires: {end}\n" in said
    assert "SRL:     version 2, " in said
    assert said.endswith("payload: may pay\n")


def test_a_revoked_warrant(world: World) -> None:
    """VERIFY-2, F42d, S4: The offline verifier finds a revoked warrant by its signed identifier."""
    revoked, other = world.signed("svc_wrt_a"), world.signed("svc_wrt_b")
    world.tenant.revoke(world.ports, "svc_wrt_a")
    world.publish()
    code, said = world.verify(revoked)
    assert code == 3
    assert said.startswith("revoked\nwarrant: svc_wrt_a\n")
    assert world.verify(other)[0] == 0


def test_the_forms_of_a_file(world: World) -> None:
    """Base64 with or without a line feed, or the bytes themselves; a file or standard input."""
    warrant = world.signed()
    for form in (warrant, warrant + "\n", base64.b64decode(warrant)):
        assert world.verify(form)[0] == 0
    for piped in (warrant.encode(), base64.b64decode(warrant)):
        stdin = io.TextIOWrapper(io.BytesIO(piped))
        world.command.monkeypatch.setattr(sys, "stdin", stdin)
        assert world.run(*world.arguments(b"")[:-1], "-")[0] == 0


def test_warrants_that_are_not_valid(world: World) -> None:
    """WARRANT-9, F42, F43, S4: The offline verifier refuses a foreign, altered or expired one."""
    warrant = base64.b64decode(world.signed(hours=1))
    other = "svc_tnt_01m7yzmhg014scvmqfzcb3mfmb"
    assert world.verify(b"")[1].startswith("not valid (malformed): ")
    assert world.verify(warrant[:-1])[1].startswith("not valid (malformed): ")
    assert world.verify(warrant, tenant=other)[1].startswith("not valid (issuer): ")
    assert world.verify(warrant, tenant=other)[0] == 1


def test_a_list_that_is_not_valid(world: World) -> None:
    """F06: without a list that is to be believed, no warrant holds."""
    warrant = world.signed()
    code, said = world.verify(warrant, list_key=world.key.public_key)
    assert code == 1
    assert said.startswith("not valid (SRL, signature): ")
    assert world.verify(warrant, min_version="3")[1].startswith("not valid (SRL, rollback): ")
    (world.folder / "srl.json").write_bytes(b"{}")
    assert world.verify(warrant)[1].startswith("not valid (SRL, malformed): ")


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", "payload: "),
        (b"\xff", "payload (base64): /w=="),
        (b"a\x1b[2J", "payload (base64): YRtbMko="),
        ("ü".encode(), "payload: ü"),
    ],
)
def test_how_a_payload_is_shown(world: World, payload: bytes, shown: str) -> None:
    """As text if a terminal shows it as it is, else in base64: it may hold anything."""
    assert world.verify(world.signed(payload=payload))[1].endswith(f"{shown}\n")
