"""How data for the console is made: through the API, at the times at which it happened.

A plan (plans.py) is carried out once in a run of the tests; each world is a copy of its folder.
"""

import base64
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from functions.transparency_log import sealing
from functions.trust import publishing
from shared.model import times
from shared.operations.lists import publication
from shared.ports import Ports
from tests.kit.api import Client, Tenant, serve
from tests.kit.feeds import publish_feed
from tests.kit.processes import ROOT
from tests.kit.worlds import Clock, close, embedded, in_memory

# When the console is opened, and how long before the tenant was made.
OPENED: Final = datetime.fromisoformat("2026-11-21T12:00:00+00:00")
DAYS: Final = 14


@dataclass
class Seed:
    """A tenant on a folder of data, and the secrets and identifiers that tests need."""

    folder: str
    tenant_id: str
    # The secrets of API keys, by the name of the key.
    secrets: dict[str, str] = field(default_factory=dict)
    # The identifiers of what was created, by name.
    ids: dict[str, str] = field(default_factory=dict)


@dataclass
class Making:
    """A seed in the making."""

    seed: Seed
    tenant: Tenant
    clock: Clock
    # What is called otherwise than its plan says.
    names: dict[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        return self.tenant.ports

    def called(self, name: str) -> str:
        return self.names.get(name, name)

    def call(self, method: str, path: str, as_: str = "admin", **body: Any) -> Any:
        """What the API answers to the holder of the API key of this name."""
        client = Client(self.tenant.admin.http, self.seed.secrets[as_])
        options = {"json": body} if body else {}
        answer = client.request(method, f"/v1/{path}", **options)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def post(self, path: str, as_: str = "admin", **body: Any) -> Any:
        return self.call("POST", path, as_, **body)

    def named(self, path: str, name: str, **body: Any) -> dict[str, Any]:
        """Create something with a name, and remember its identifier."""
        made: dict[str, Any] = self.post(path, name=self.called(name), **body)
        self.seed.ids[name] = made["id"]
        return made

    def api_key(self, name: str, scope: str, days: int | None = None, account: str = "") -> None:
        """Create an API key, that ends after some days, for an account if one is named."""
        ends = {"expires_at": times.format_utc(self.clock() + timedelta(days=days))} if days else {}
        of = {"service_account_id": self.seed.ids[account]} if account else {}
        self.seed.secrets[name] = self.named("api-keys", name, scopes=[scope], **ends, **of)["key"]

    def signing_key(
        self, name: str, parent: str = "", type_: str = "root", warrants: int = 0
    ) -> None:
        """Create a signing key below the one of this name, and sign with it."""
        below = {"parent_id": self.seed.ids[parent]} if parent else {}
        self.named("keys", name, type=type_, **below)
        for number in range(warrants):
            self.sign(name, number)

    def sign(self, name: str, number: int) -> None:
        """Let a signing key sign the warrant of this number of it."""
        key_id = self.seed.ids[name]
        payload = base64.b64encode(f"order {number}".encode()).decode()
        self.post(f"keys/{key_id}/sign", payload=payload, warrant_id=warrant(key_id, number))

    def tick(self) -> None:
        """Run the feed and the schedule once."""
        run_schedule(self.tenant.ports, self.tenant.id)


Plan = Callable[[Making], None]


def found(plan: Plan, folder: Path) -> Seed:
    """The seed of a plan, which is made in `folder` unless it is there.

    It is made in a process of its own: a running browser has an event loop in its thread, and to
    search all answers for secrets (tests/leaks.py) takes longer than to make them.
    """
    made = folder / plan.__name__
    with (folder / f"{plan.__name__}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            subprocess.run(
                [sys.executable, "-m", "tests.functions.console.plans", plan.__name__, made],
                cwd=ROOT,
                timeout=300,
                check=True,
            )
    return Seed(**json.loads((made / "seed.json").read_text()))


def make(plan: Plan, folder: Path) -> None:
    """Carry out a plan on a folder, which does not exist unless it is complete."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    with in_memory(part / "memory"):
        seed = _carried_out(plan, part / "memory")
        shutil.copytree(part / "memory", part / "data")
    (part / "memory").unlink()
    (part / "seed.json").write_text(json.dumps(asdict(seed) | {"folder": str(folder / "data")}))
    part.rename(folder)


def _carried_out(plan: Plan, folder: Path) -> Seed:
    clock = Clock(OPENED - timedelta(days=DAYS))
    ports = embedded(folder, clock, store=str(folder / "svc.db"))
    try:
        tenant = Tenant(ports, serve(ports), handle="acme")
        making = Making(Seed(str(folder), tenant.id), tenant, clock)
        assert tenant.admin.secret
        making.seed.secrets["admin"] = tenant.admin.secret
        plan(making)
        sealing.extend(ports, tenant.id)
    finally:
        close(ports)
    return making.seed


def run_schedule(ports: Any, tenant_id: str) -> None:
    """Seal the audit log of a tenant, renew its trust document, publish its feed, then the list.

    Document and list are made if they are due.
    """
    sealing.extend(ports, tenant_id)
    publishing.keep(ports, tenant_id)
    publish_feed(ports, tenant_id)
    publication.publish_if_due(ports, tenant_id)


def warrant(key_id: str, number: int) -> str:
    """The identifier of a warrant that a signing key signed."""
    return f"svc_wrt_{key_id[-6:]}-{number}"
