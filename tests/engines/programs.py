"""The engines: how each is started, what it is put to, and where it is known to be wrong."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeAlias

from tests.kit import postgresql
from tests.kit.aws import REGION
from tests.kit.pgbouncer import PROGRAM as _PGBOUNCER
from tests.kit.pgbouncer import pgbouncer
from tests.kit.processes import HOST, ROOT, Group, answers, free_port

# Given a folder of its own, an engine runs until the end; the settings that lead tests to it.
Started: TypeAlias = AbstractContextManager[dict[str, str]]

_MODULES: Final = ROOT / ".tools/engines/node_modules"
_DYNOXIDE: Final = _MODULES / "@dynoxide/linux-x64/dynoxide"
_AZURITE: Final = _MODULES / "azurite/dist/src/blob/main.js"
# Those that every Azurite has.
_AZURITE_ACCOUNT: Final = "devstoreaccount1"
_AZURITE_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_S3RVER: Final = _MODULES / "s3rver/bin/s3rver.js"
_MINISTACK: Final = ROOT / ".tools/ministack/bin/ministack"
_BAO: Final = ROOT / ".tools/openbao/bin/bao"
_POSTGRES: Final = (postgresql.of_debian() or Path("/usr/lib/postgresql/15/bin")) / "postgres"
_SERVICES: Final = ("DYNAMODB", "S3", "KMS", "SQS")

# A fair part of the API tests; more of them that write and read; and those that do so little.
_SOME: Final = (
    *("functions/test_api_keys.py", "functions/test_revocations.py"),
    *("functions/test_signing_keys.py", "functions/test_srl.py", "functions/test_warrants.py"),
)
_MORE: Final = (
    *("functions/test_audit_log.py", "functions/test_service_accounts.py"),
    *("functions/test_tenant_settings.py", "web/test_authentication.py", "web/test_gate.py"),
    *("web/test_outages.py", "web/test_paging.py", "web/test_usage.py"),
)
_REST: Final = (
    *("functions/test_coverage.py", "web/test_bodies.py", "web/test_conditional.py"),
    *("web/test_fields.py", "web/test_routes.py"),
)


@dataclass(frozen=True)
class Engine:
    """An engine; `wrong` are the tests of the contracts that it fails, told in CONTRIBUTING.md."""

    name: str
    adapters: str  # which parameters of the contract suites are its own, as pytest's -k
    on: str = "endpoints"
    program: Path | None = None
    start: Callable[[Path], Started] = lambda _: nullcontext({})
    files: tuple[str, ...] = _SOME + _MORE + _REST
    wrong: frozenset[str] = frozenset()

    @property
    def is_optional(self) -> bool:
        """Whether its program comes from the system, and not from this project."""
        return self.program is not None and not self.program.is_relative_to(ROOT)

    @property
    def missing(self) -> bool:
        """Whether its program is not to be had here."""
        return self.program is not None and not self.program.exists()


@contextmanager
def _running(
    command: list[str],
    folder: Path,
    port: int,
    settings: dict[str, str] | None = None,
    *,
    status: HTTPStatus = HTTPStatus.OK,
) -> Iterator[str]:
    group = Group(command, folder / "engine.log", lambda: answers(port, status), settings or {})
    try:
        group.start()
        yield f"http://{HOST}:{port}"
    finally:
        group.kill()


@contextmanager
def dynoxide(folder: Path) -> Iterator[dict[str, str]]:
    """DynamoDB on a file."""
    port = free_port()
    command = [str(_DYNOXIDE), "--port", str(port), "--db-path", str(folder / "engine.db")]
    with _running(command, folder, port) as address:
        yield {"RESCIND_TEST_DYNAMODB_ENDPOINT": address}


@contextmanager
def ministack(folder: Path) -> Iterator[dict[str, str]]:
    """DynamoDB, S3, KMS and SQS."""
    port = free_port()
    settings = {"GATEWAY_PORT": str(port), "BIND_HOST": HOST, "LOG_LEVEL": "WARNING"}
    with _running([str(_MINISTACK)], folder, port, settings) as address:
        yield {f"RESCIND_TEST_{service}_ENDPOINT": address for service in _SERVICES} | _signer(
            "test"
        )


@contextmanager
def s3rver(folder: Path) -> Iterator[dict[str, str]]:
    """S3 that checks signatures; it knows one pair of credentials."""
    port = free_port()
    place = ["--address", HOST, "--port", str(port), "--directory", str(folder / "buckets")]
    with _running(["node", str(_S3RVER), *place], folder, port) as address:
        yield {"RESCIND_TEST_S3_ENDPOINT": address} | _signer("S3RVER")


@contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """Blobs of Azure, in memory; it checks signatures, and does without TLS."""
    port = free_port()
    place = ["--blobHost", HOST, "--blobPort", str(port), "--inMemoryPersistence"]
    how = ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    command = ["node", str(_AZURITE), *place, *how]
    with _running(command, folder, port, status=HTTPStatus.BAD_REQUEST) as address:
        yield {
            "RESCIND_TEST_AZURE_ENDPOINT": f"{address}/{_AZURITE_ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_KEY": _AZURITE_KEY,
        }


@contextmanager
def openbao(folder: Path) -> Iterator[dict[str, str]]:
    """The secrets engine `transit`, in memory; it knows one token."""
    port, token = free_port(), folder / "token"
    place = ["-dev-listen-address", f"{HOST}:{port}", "-dev-root-token-id", "root"]
    command = [str(_BAO), "server", "-dev", "-dev-no-store-token", *place]
    token.write_text("root\n", encoding="ascii")
    settings = {"HOME": str(folder)}
    with _running(command, folder, port, settings, status=HTTPStatus.TEMPORARY_REDIRECT) as address:
        yield {"RESCIND_TEST_VAULT_ENDPOINT": address, "VAULT_TOKEN_FILE": str(token)}


@contextmanager
def postgresql_of_debian(_: Path) -> Iterator[dict[str, str]]:
    """The PostgreSQL of Debian, whose version is not that of the wheel."""
    with postgresql.running(programs=_POSTGRES.parent) as server:
        yield {"RESCIND_TEST_POSTGRESQL_ENDPOINT": f"{HOST}:{server.port}"}


@contextmanager
def pooled(_: Path) -> Iterator[dict[str, str]]:
    """A PostgreSQL behind a pgbouncer that pools transactions."""
    with postgresql.running() as server, pgbouncer(server, "transaction") as pooler:
        address = f"{HOST}:{pooler.port}"
        yield {"RESCIND_TEST_POSTGRESQL_ENDPOINT": address, "RESCIND_POSTGRESQL_PREPARE": "off"}


def _signer(name: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": name,
        "AWS_SECRET_ACCESS_KEY": name,
        "AWS_DEFAULT_REGION": REGION,
    }


ENGINES: Final = (
    Engine("SQLite in memory", "sqlite-memory", on="sqlite-memory"),
    Engine("SQLite in a file", "sqlite-file", on="sqlite-file"),
    Engine("PostgreSQL", "postgresql", on="postgresql"),
    Engine(
        "Debian's PostgreSQL",
        "postgresql",
        on="postgresql",
        program=_POSTGRES,
        start=postgresql_of_debian,
        files=_SOME,
    ),
    Engine(
        "pgbouncer",
        "postgresql",
        on="postgresql",
        program=_PGBOUNCER,
        start=pooled,
        files=_SOME,
    ),
    Engine("moto", "(dynamodb or s3 or kms or sqs) and not endpoint", on="moto", files=_SOME),
    Engine("dynoxide", "endpoint", program=_DYNOXIDE, start=dynoxide, files=_SOME + _MORE),
    Engine(
        "ministack",
        "endpoint",
        program=_MINISTACK,
        start=ministack,
        files=_SOME,
        wrong=frozenset({"test_an_altered_seal_does_not_open"}),
    ),
    Engine(
        "OpenBao",
        "endpoint",
        program=_BAO,
        start=openbao,
        files=("functions/test_signing_keys.py", "functions/test_srl.py"),
    ),
    Engine(
        "Azurite",
        "endpoint",
        program=_AZURITE,
        start=azurite,
        files=("functions/test_srl.py",),
    ),
    Engine(
        "s3rver",
        "endpoint",
        program=_S3RVER,
        start=s3rver,
        files=("functions/test_srl.py",),
        wrong=frozenset(
            {
                "test_a_blob_never_changes",
                "test_names_are_not_cut_off_at_a_page",
                "test_the_names_below_a_folder_come_in_order",
            }
        ),
    ),
)
