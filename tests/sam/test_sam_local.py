"""The session of the README over SAM's own event layer, on what `sam build` made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import expect

from shared.authorizer.formats.documents import documents
from tests import aws_local
from tests.infra.terminal import check_session
from tests.kit import browsers
from tests.kit.artefact import Artefact, built
from tests.kit.lambda_events import Answer, Request, load
from tests.kit.processes import HOST, ROOT, environment, free_port, run
from tests.kit.rie import Emulator, emulator, wait_until_it_listens

# A server, an emulator for each function and SAM's own: part of `make test-all`.
pytestmark = pytest.mark.slow

_TOOLS: Final = ROOT / ".tools" / "sam" / "bin"
_GATEWAY: Final = ROOT / "tests" / "sam" / "gateway.py"
_ENVIRONMENT: Final = ROOT / "infra" / "sam" / "environment.json"
_SAM: Final = {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "eu-west-1"}


@dataclass(frozen=True)
class Local:
    """A running SAM local: where its API is, its functions, and the way to the AWS behind it."""

    url: str
    functions: dict[str, Emulator]
    settings: dict[str, str]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    artefact = built(tmp_path_factory)
    template = _sam_build(tmp_path_factory.mktemp("checkout"), artefact)
    port = free_port()
    with ExitStack() as stack:
        settings = stack.enter_context(aws_local.serving(port))
        functions = {
            each["name"]: stack.enter_context(_function(artefact, each, settings))
            for each in _described(template, port)
        }
        yield Local(stack.enter_context(_gateway(template, functions)), functions, settings)


def test_the_session_of_the_readme_passes(local: Local, tmp_path: Path) -> None:
    """Revoke, publish, fetch, verify: SAM's events, the artefact, AWS of one machine behind it."""
    made = _admin(local, "tenant", "create", "local")
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "admin.key").write_text(made.stdout)
    check_session("README.md", tmp_path, url=local.url)


def test_the_schedule_hands_over_and_the_queue_publishes(local: Local) -> None:
    """The events that SAM local is invoked with: a record of the stream, a tick, a message."""
    key = _admin(local, "tenant", "create", "scheduled").stdout.strip()
    revoke = Request(
        "POST",
        "/v1/revocations",
        headers=(("Authorization", f"Bearer {key}"), ("Content-Type", "application/json")),
        body=json.dumps({"warrant_id": "svc_wrt_a", "reason": "stolen"}).encode(),
    )
    answer = Answer.of(local.functions["Revocations"].invoke(revoke.http_api()))
    assert answer.status == 201, answer.body
    assert local.functions["SrlSchedule"].invoke(load("schedule"))["queued"] >= 1
    listed = _admin(local, "tenant", "list").stdout.splitlines()
    (tenant_id,) = [line.split()[1] for line in listed if line.startswith("scheduled ")]
    event = load("stream")
    event["Records"][0]["dynamodb"]["Keys"]["sk"]["S"] = f"{tenant_id}#17"
    assert local.functions["FeedPublication"].invoke(event)["published"] == 1
    event = load("queue")
    event["Records"] = [event["Records"][0] | {"body": tenant_id}]
    assert local.functions["SrlPublication"].invoke(event)["published"] == 1
    fetch = Request("GET", "/v1/revocations/srl", headers=(("Authorization", f"Bearer {key}"),))
    listed_now = Answer.of(local.functions["Srl"].invoke(fetch.http_api())).json()["payload"]
    assert (listed_now["Version"], listed_now["RevokedIDs"]) == (2, ["svc_wrt_a"])


def test_a_webhook_is_called_after_its_log_has_grown(local: Local) -> None:
    """The events of the sealing and of webhooks: a tick, a record of the stream, a message."""
    key = _admin(local, "tenant", "create", "hooked").stdout.strip()
    listed = _admin(local, "tenant", "list").stdout.splitlines()
    (tenant_id,) = [line.split()[1] for line in listed if line.startswith("hooked ")]
    create = Request(
        "POST",
        "/v1/webhooks",
        headers=(("Authorization", f"Bearer {key}"), ("Content-Type", "application/json")),
        # Nobody has this name (RFC 2606).
        body=json.dumps({"url": "https://hooks.invalid/", "events": ["api_key.create"]}).encode(),
    )
    answer = Answer.of(local.functions["Webhooks"].invoke(create.http_api()))
    assert answer.status == 201, answer.body
    assert local.functions["AuditLogSealing"].invoke(load("schedule"))["sealed"] >= 1
    event = load("log_stream")
    event["Records"][0]["dynamodb"]["Keys"]["pk"]["S"] = f"{tenant_id}#log"
    assert local.functions["WebhookDelivery"].invoke(event) == {"queued": 1}
    event = load("queue")
    event["Records"] = [event["Records"][0] | {"body": f"{tenant_id}#{answer.json()['id']}"}]
    assert local.functions["WebhookDelivery"].invoke(event) == {"queued": 0}
    assert local.functions["WebhookDelivery"].invoke(load("schedule")) == {"queued": 0}


def test_the_console_works_on_the_functions(local: Local) -> None:
    """F449g, F449h: In a browser, API Gateway's events carry the console and what it calls.

    A person signs in, revokes, publishes, and verifies the list.
    """
    chromium = browsers.executable()
    if chromium is None:
        pytest.skip("no Chromium")
    key = _admin(local, "tenant", "create", "console").stdout.strip()
    faults = list[str]()
    with browsers.launched(chromium) as browser:
        page = browser.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(local.url)
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Get started in three steps")).to_be_visible()
        page.get_by_role("link", name="Revocations").click()
        page.get_by_role("button", name="Revoke a warrant…").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Warrant").fill("svc_wrt_laptop-17")
        dialog.get_by_label("Reason").fill("laptop stolen")
        dialog.get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("svc_wrt_laptop-17 revoked")
        page.get_by_role("link", name="Overview").click()
        page.get_by_role("button", name="Publish SRL").click()
        expect(page.locator(".figures a").nth(2)).to_contain_text("SRL 2")
        page.get_by_role("link", name="SRL", exact=True).click()
        page.get_by_label("Trusted pin").fill(_pin(local, key))
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_text("A key in the trust document signed the SRL")).to_be_visible()
    assert faults == []


def _pin(local: Local, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.get(f"{local.url}/v1/trust", headers=headers)
    return documents(answer.content)[0].document.roots.pin


def test_the_doctor_finds_nothing_wrong(local: Local) -> None:
    """What the functions left behind is sound, on an engine that none of us wrote."""
    key = _admin(local, "tenant", "create", "sound").stdout.strip()
    rotate = f"{local.url}/v1/revocations/srl/keys/rotate"
    assert httpx2.post(rotate, headers={"Authorization": f"Bearer {key}"}).status_code == 201
    assert local.functions["TrustRenewal"].invoke(load("schedule"))["published"] >= 1
    assert _admin(local, "doctor").returncode == 0


def _admin(local: Local, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = run("-m", "infra.cli", *arguments, settings=local.settings)
    assert done.returncode == 0, done.stderr
    return done


def _sam_build(checkout: Path, artefact: Artefact) -> Path:
    """The template that `sam build` makes of ours, with this machine's artefact in it."""
    shutil.copy(ROOT / "template.yaml", checkout)
    (checkout / "infra").mkdir()
    shutil.copy(ROOT / "infra" / "alarms.yaml", checkout / "infra")
    shutil.copytree(artefact.task, checkout / ".build" / "app")
    _sam(checkout, "sam", "build")
    return checkout / ".aws-sam" / "build" / "template.yaml"


def _described(template: Path, port: int) -> list[dict[str, Any]]:
    """The functions, as SAM reads template and environment file."""
    for_here = template.with_name("environment.json")
    address = f"{HOST}:{port}"
    for_here.write_text(_ENVIRONMENT.read_text().replace("host.docker.internal:4566", address))
    output = _sam(template.parent, "python", _GATEWAY, "functions", template, for_here)
    described: list[dict[str, Any]] = json.loads(output)
    return described


@contextmanager
def _function(
    artefact: Artefact, described: dict[str, Any], settings: dict[str, str]
) -> Iterator[Emulator]:
    variables = described["variables"] | {
        name: value for name, value in settings.items() if name.startswith("AWS_")
    }
    assert variables["AWS_ENDPOINT_URL"] == settings["AWS_ENDPOINT_URL"]
    code = replace(artefact, task=Path(described["code"]))
    with emulator(
        code, described["handler"], variables, timeout_seconds=described["timeout"]
    ) as it:
        yield it


@contextmanager
def _gateway(template: Path, functions: dict[str, Emulator]) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [_TOOLS / "python", _GATEWAY, "serve", template, str(port)],
        cwd=template.parent,
        env=environment(_SAM),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps({n: each.address for n, each in functions.items()}).encode())
        process.stdin.close()
        wait_until_it_listens(process, port)
        yield f"http://{HOST}:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _sam(folder: Path, program: str, *arguments: object) -> str:
    done = subprocess.run(
        [_TOOLS / program, *map(str, arguments)],
        cwd=folder,
        env=environment(_SAM),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
