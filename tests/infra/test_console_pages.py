"""Each `console` block of the documentation is run by a test, or it is said here why it is not."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests import assurance
from tests.infra import console
from tests.infra.terminal import Terminal
from tests.kit.processes import LocalServer, local_server

_DEPLOY: Final = "sam/test_deploy_page.py::test_the_page_works"
_INCIDENTS: Final = (
    "infra/test_documented_sessions.py::test_the_documented_incidents_are_ended_on_aws"
)
_SAM_READS: Final = "sam/test_parameters.py::test_sam_understands_the_commands_of_its_page"

_STATUS_LISTS: Final = "infra/test_tokens_of_others.py::test_the_page_on_status_lists"
_PARSED: Final = "infra/cli/test_commands.py holds its arguments to what the program accepts"

# By page: what only this block of the page has in it, and the test that types it.
RUN: Final = {
    "docs/one-machine.md": {
        "tenant create acme": (
            "infra/test_documented_sessions.py::test_the_operators_commands_work"
        ),
    },
    "docs/cli.md": {
        "rescind login": "infra/test_console_pages.py::test_the_page_of_the_cli",
    },
    "docs/deploy.md": {
        "export PATH=": _DEPLOY,
        "iam create-policy": _DEPLOY,
        "--template-file infra/stateful.yaml": _DEPLOY,
        "--no-deletion-protection-enabled": (
            "sam/test_deploy_page.py::test_a_first_try_that_failed_is_cleaned_up"
        ),
        "AlarmEmail=": _DEPLOY,
        "make probe-writes": "infra/test_write_probe.py asks accounts that judge in several ways",
        "get-account-settings": _DEPLOY,
        "PARAMETERS=BasePath=auth": _DEPLOY,
        "tenant create acme": _DEPLOY,
        "sleep 90": _DEPLOY,
        "rescind upgrade": _DEPLOY,
        "reserved-concurrent-executions 0": _DEPLOY,
        "PARAMETERS=RestoredAs=$TO": _DEPLOY,
        "list-object-versions": _DEPLOY,
    },
    "docs/runbook.md": {
        ".venv/bin/rescind doctor": _DEPLOY,
        "TENANT=acme": _DEPLOY,
        "rescind srl publish-due": _DEPLOY,
        "on-demand-throughput": _DEPLOY,
        "cancel-key-deletion": _INCIDENTS,
    },
    "CONTRIBUTING.md": {
        "start-api": _SAM_READS,
        "sam local invoke": _SAM_READS,
    },
    "docs/api-keys.md": {
        "service-accounts create": (
            "infra/cli/operator/test_identities.py::test_a_job_of_github_actions"
        ),
    },
    "docs/sign-in.md": {
        **dict.fromkeys(
            ("openssl req", "make run", "identity-providers add", "login --sso"),
            "infra/test_sign_in_page.py::test_the_page_on_signing_in",
        ),
        "approvals protect": (
            "infra/cli/test_access_incidents.py::test_what_the_page_on_signing_in_protects"
        ),
    },
    "docs/tokens.md": dict.fromkeys(
        ("--jwt stolen.jwt", "--subject", "--usage verify_only", "--token biscuit"),
        "infra/test_tokens_of_others.py::test_the_page_on_tokens",
    )
    | dict.fromkeys(("status-lists create", "svc_wrt_tsl-"), _STATUS_LISTS),
    "docs/spec/srl.md": {
        "rescind srl verify": "infra/test_console_pages.py::test_the_page_on_lists",
    },
}
# And those that no test types, each with the reason.
NOT_RUN: Final = {
    "CONTRIBUTING.md": {
        "tests/web": "they run the tests, of which this is one",
        "make test-engines": "it takes minutes; `make test-slow` has its suites",
        "tests/contracts -k endpoint": "it needs an engine of the reader's",
        "tests/functions/test_warrants.py": "it needs an engine of the reader's",
        "make aws-local": (
            "it serves the whole network; the tests start the same on this machine alone"
        ),
        "export AWS_ACCESS_KEY_ID=…": "it has the settings that were printed",
    },
    "docs/authorizers.md": {
        "go build": "clients/test_go.py builds the program, and lets it serve on a free port",
        "pip install dist/": (
            "infra/test_authorizer_wheel.py installs the wheel, with versions that the tests pin"
        ),
        "ext-authz": (
            "infra/test_authorizer_examples.py runs it beside Envoy, with addresses of its own"
        ),
        "rescind_authorizer status": (
            "authorizer/test_command_line.py runs both on a service of its own"
        ),
        "propagation?wait=25": (
            "clients/test_typescript_live.py makes this request, of a revocation of its own"
        ),
        "rescind canary local --data .data": (
            "infra/test_canary.py runs it, beside authorizers of its own"
        ),
    },
    "docs/audit-log.md": {
        "audit-log list --warrant": _PARSED,
        "audit-log export --file": _PARSED,
        "sha256sum": "functions/test_audit_export.py hashes this part of each line",
        "tail -n 1": _PARSED,
        "--profile auditor": _PARSED,
        "audit-log verify --trust-pin": _PARSED,
        "rescind witness": "infra/witness/ runs witnesses, with folders and logs of its own",
        "RESCIND_WITNESSES": "infra/server/test_witnessing.py sets it, for witnesses of its own",
    },
    "docs/bulk.md": {
        "audit-log list --warrant": _PARSED,
        "revoke --file lost.csv": _PARSED,
        "revoke --signed-by": _PARSED,
        "unrevoke --batch": _PARSED,
        "revocations list --batch": _PARSED,
        "revocations counts --since": _PARSED,
    },
    "docs/webhooks.md": {
        "webhooks create": _PARSED,
    },
    "docs/api-keys.md": {
        "api-keys rotate": _PARSED,
        "api-keys create": _PARSED,
        "leaked-keys": "functions/test_leaked_keys.py sends such reports",
    },
    "docs/metrics.md": {
        "rescind_srl": "infra/server/test_metrics.py asks a server, at an address of its own",
        "opentelemetry-distro": (
            "infra/server/test_metrics.py runs a server with what the tests pin of OpenTelemetry"
        ),
    },
    "docs/moving.md": {
        "rescind migrate": "infra/cli/operator/test_moving.py types it, between two machines",
        "MigrationRole=rescind-operator": (
            "infra/test_permissions.py moves with what the role and the policy allow"
        ),
        "rescind tenant export": (
            "infra/cli/operator/test_moving.py types each, with the grace time that it needs"
        ),
    },
    "docs/relay.md": {
        "rescind_authorizer relay": (
            "authorizer/relay/ runs the relay, with addresses and certificates of its own"
        ),
    },
    "docs/spec/feed.md": {
        "tests.conformance": "conformance/test_conformance.py runs these commands",
    },
    "docs/deploy.md": {
        "trust new-root": "infra/cli/test_trust.py has three people sign, with files for the HSM",
        "rollback-configuration": (
            "the emulator has no rollback by alarm, and refuses an update that changes nothing else"
        ),
        "sam delete": "SAM does not take the emulator's addresses for those of S3",
        "'^age:'": "it asks what the gateway of AWS passes on",
    },
    "docs/homes.md": {
        "rescind serve --port 8080": (
            "infra/test_documented_sessions.py starts both, at ports of its own"
        ),
        "alias compose": "there may be no engine for containers",
        "head -c 32 /dev/urandom": (
            "there is no cluster; infra/test_kubernetes.py holds the names to the manifests"
        ),
    },
    "docs/second-region.md": {
        "failover --from": (
            "infra/cli/operator/test_failover.py types it, between two emulated regions"
        ),
    },
    "docs/one-machine.md": {
        "/readyz": "infra/server/test_health.py asks it, at an address of its own",
        "docker compose": (
            "there may be no engine for containers; the workflow of the forge runs the first"
        ),
        "HOST=192": "the address is that of the reader's machine",
    },
    "docs/runbook.md": {
        "list-event-source-mappings": "the tests deploy no function that the emulator calls",
        "purge-queue": "the address of the queue is the reader's",
        'rescind recover "$TENANT"': (
            "operations/audit/test_sealed_log_cut.py recovers logs that were cut"
        ),
        "aws ce ": "the emulator knows no costs",
        "--source-unavailable": "infra/cli/operator/test_failover.py types it",
    },
}

ROWS: Final = [
    (page, snippet, why)
    for table in (RUN, NOT_RUN)
    for page, blocks in table.items()
    for snippet, why in blocks.items()
]
BLOCKS: Final = [(page, block) for page in console.PAGES for block in console.blocks(page)]


def test_every_block_is_typed_or_excused() -> None:
    """F102d: Every command block of the documentation is run by a test or excepted by name."""
    for page, block in BLOCKS:
        rows = [row for row in ROWS if row[0] == page and row[1] in block]
        assert len(rows) == 1, f"{console.name(page, block)}: in {len(rows)} rows of this module"


@pytest.mark.slow
def test_every_row_is_of_a_block() -> None:
    """F102: no row is left of what the pages have no longer, and the tests are there."""
    for page, snippet, why in ROWS:
        assert sum(snippet in block for block in console.blocks(page)) == 1, snippet
        assert tuple(why.split("::")) in assurance.docstrings() if "::" in why else why, snippet


@pytest.fixture
def server(tmp_path: Path) -> LocalServer:
    """A server that has made its data folder, beside which the reader sits; it has stopped."""
    with local_server(tmp_path / ".data") as server:
        server.interrupt()
    return server


@pytest.mark.slow
def test_the_page_of_the_cli(tmp_path: Path) -> None:
    """F416b: The session of docs/cli.md works as it is typed, and exits with 3 for revoked."""
    (block,) = console.blocks("docs/cli.md")
    settings = {"RESCIND_CONFIG_DIR": str(tmp_path / "home")}
    with local_server(tmp_path / ".data") as server, Terminal(tmp_path, settings) as terminal:
        output = terminal.type(block.replace("http://127.0.0.1:8080", server.url))
    assert re.search(r"^svc_wrt_laptop-17 +revoked ", output, re.MULTILINE)
    assert "svc_wrt_laptop-17: revoked" in output
    assert re.search(r"^    └── svc_key_\w+  issuer  active  laptops$", output, re.MULTILINE)
    assert server.admin_key not in output


_BEFORE: Final = """
AUTH="Authorization: Bearer $(cat .data/admin.key)"
curl -sS "$URL/v1/revocations" -H "$AUTH" -H "Content-Type: application/json" \\
  -d '{"warrant_id": "svc_wrt_laptop-17", "reason": "stolen"}'
curl -sS -X POST "$URL/v1/revocations/srl/regenerate" -H "$AUTH"
PINNED=$(curl -sS "$URL/v1/revocations/srl/keys" -H "$AUTH" |
  .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["keys"][0]["public_key"])')
"""


@pytest.mark.slow
def test_the_page_on_lists(tmp_path: Path) -> None:
    """F102: the verification of docs/spec/srl.md, of a list that has the warrant (exit code 3)."""
    (block,) = console.blocks("docs/spec/srl.md")
    with local_server(tmp_path / ".data") as server, Terminal(tmp_path) as terminal:
        terminal.type(f"URL={server.url}\n{_BEFORE}")
        output = terminal.type(f"{block} || test $? -eq 3")
    assert "valid: version 2, " in output
    assert "svc_wrt_laptop-17: revoked" in output
