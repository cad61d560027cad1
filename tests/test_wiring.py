"""From settings to ports: which adapter each URI gives, and identifiers that sort."""

import inspect
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import pytest

from infra import data_folder
from shared import wiring
from shared.adapters import https
from shared.adapters.aws import s3, sqs
from shared.adapters.aws.dynamodb import DynamoStore
from shared.adapters.aws.s3 import S3Blobs
from shared.adapters.azure.blobs import AzureBlobs
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.local.filesystem import FileBlobs
from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.openings import Opening, load
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.errors import InvalidSettings, Unavailable
from shared.model.items import Address, Table
from shared.model.outbound import Network
from shared.ports.blobs import BlobStore
from shared.ports.outside import OutboundHttp, Sender, WitnessClient
from shared.ports.store import Expect, Put
from tests.kit import postgresql
from tests.kit.aws import aws, pretend_credentials
from tests.kit.processes import ROOT, run
from tests.kit.worlds import Clock, close

_KEY = Address(Table.KEYS, "some")
_CONTEXT = {"tenant": "t", "key": "k"}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Settings that keep all on one machine, with their key file."""
    data_folder.prepare(tmp_path)
    return data_folder.environment(tmp_path)


def test_local_settings_give_local_adapters(settings: dict[str, str], tmp_path: Path) -> None:
    """`sqlite:` and `file:` give the adapters of one machine, at the places that they name."""
    ports = wiring.assemble(wiring.settings(settings))
    assert isinstance(ports.store, SqliteStore)
    assert isinstance(ports.blobs, FileBlobs)
    assert isinstance(ports.sealer, FileSealer)
    ports.blobs.put("srl/list.json", b"{}")
    close(ports)
    assert (tmp_path / "svc.db").exists()
    assert (tmp_path / "blobs/srl/list.json").read_bytes() == b"{}"


def test_settings_of_aws_give_adapters_of_aws() -> None:
    """`dynamodb:`, `s3:` and `kms:` give the adapters of AWS, at the places that they name."""
    with aws() as account:
        ports = wiring.assemble(
            wiring.settings(
                {
                    "RESCIND_STORE": f"dynamodb:{account.table_prefix}",
                    "RESCIND_BLOBS": f"s3:{account.bucket}",
                    "RESCIND_KEY_WRAPPER": f"kms:{account.key_id}",
                }
            )
        )
        assert isinstance(ports.store, DynamoStore)
        ports.store.write(Put(_KEY, {"n": 1}, Expect.ABSENT))
        ports.blobs.put("srl/list.json", b"{}")
        sealed = ports.sealer.seal(b"seed", context=_CONTEXT)
        assert account.s3.list_objects_v2(Bucket=account.bucket)["KeyCount"] == 1
        assert account.dynamodb.scan(TableName=f"{account.table_prefix}keys")["Count"] == 1
        assert ports.sealer.unseal(sealed, context=_CONTEXT) == b"seed"


def test_each_scheme_has_a_folder_that_opens_it() -> None:
    """Each folder has the functions for which a table names it, with the arguments, and no more."""
    tables = {
        "open_store": wiring._STORES,
        "open_blobs": wiring._BLOBS,
        "open_key_wrapper": wiring._KEYS,
        "open_root": wiring._ROOTS,
        "open_queue": wiring._QUEUES,
        "open_audit_sink": wiring._AUDIT_SINKS,
    }
    folders = [path.parent.name for path in ROOT.glob("shared/adapters/*/__init__.py")]
    openings = {folder: import_module(f"shared.adapters.{folder}.opening") for folder in folders}
    named = {(folder, name) for name, table in tables.items() for folder in table.values()}
    assert named == {
        (folder, name)
        for folder, module in openings.items()
        for name in vars(module)
        if name.startswith("open_")
    }
    for folder, name in named:
        asked = inspect.signature(getattr(Opening, name))
        given = inspect.signature(getattr(openings[folder], name))
        _, *types = [each.annotation for each in asked.parameters.values()]
        assert [each.annotation for each in given.parameters.values()] == types
        assert given.return_annotation == asked.return_annotation


def test_each_adapter_that_is_loaded_by_name_is_there() -> None:
    """No name of a module is spelt wrongly, and the clients are of the types that they pass for."""
    sources = [ROOT / "shared/wiring.py", *ROOT.glob("shared/adapters/*/opening.py")]
    names = set(re.findall(r'\bload\("(.+?)"\)', "".join(each.read_text() for each in sources)))
    assert {"https", "pkcs11.root"} <= names
    for name in names:
        load(name)
    sender: Callable[[Sequence[Network]], Sender] = https.HttpsSender
    client: Callable[[Sequence[Network]], OutboundHttp] = https.HttpsClient
    witnesses: Callable[[], WitnessClient] = https.HttpWitnesses
    assert all(map(callable, (sender, client, witnesses)))


_WITHOUT_EXTRAS: Final = """
import os, sys
sys.modules.update(dict.fromkeys(("psycopg", "obstore", "pkcs11")))
from shared import wiring
for changed in sys.argv[1:]:
    name, _, value = changed.partition("=")
    try:
        wiring.assemble(wiring.settings({**os.environ, name: value}))
    except wiring.InvalidSettings as error:
        print(error)
"""


def test_an_extra_that_is_not_installed_is_named(settings: dict[str, str]) -> None:
    """Whoever chooses an adapter without its packages is told what to install."""
    changes = (
        "RESCIND_STORE=postgresql://u@localhost/d",
        "RESCIND_BLOBS=postgresql:",
        "RESCIND_BLOBS=azure:acc/box",
        "RESCIND_ROOT=pkcs11:token=t;object=o?module-path=/m.so&pin-source=/pin",
        "RESCIND_ROOT=pkcs11:token=t",
    )
    ran = run("-c", _WITHOUT_EXTRAS, *changes, settings=settings)
    assert ran.stdout.splitlines()[:4] == [
        "psycopg is not installed; run: pip install 'rescind[postgresql]'",
        "psycopg is not installed; run: pip install 'rescind[postgresql]'",
        "obstore is not installed; run: pip install 'rescind[azure]'",
        "pkcs11 is not installed; run: pip install 'rescind[pkcs11]'",
    ], ran.stderr
    assert "The URI of the root key must name" in ran.stdout


def test_the_environment_is_read_once(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process has one set of ports, built when they are first asked for."""
    wiring.from_environment.cache_clear()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ports = wiring.from_environment()
    monkeypatch.setenv("RESCIND_STORE", "nonsense")
    assert wiring.from_environment() is ports
    wiring.from_environment.cache_clear()
    with pytest.raises(InvalidSettings, match="RESCIND_STORE"):
        wiring.from_environment()
    close(ports)


@pytest.mark.parametrize(
    ("name", "break_"),
    [
        ("RESCIND_STORE", lambda folder: (folder / "svc.db").write_text("no database " * 100)),
        ("RESCIND_STORE", lambda folder: (folder / "svc.db").mkdir()),
        (
            "RESCIND_STORE",
            lambda folder: (folder / "svc.db-limits").write_text("no database " * 100),
        ),
        ("RESCIND_BLOBS", lambda folder: (folder / "blobs").write_text("no folder")),
        ("RESCIND_KEY_WRAPPER", lambda folder: (folder / "master.key").unlink()),
        ("RESCIND_KEY_WRAPPER", lambda folder: (folder / "master.key").chmod(0o644)),
    ],
)
def test_a_place_that_cannot_be_used_is_a_wrong_setting(
    settings: dict[str, str], tmp_path: Path, name: str, break_: Callable[[Path], object]
) -> None:
    """Whatever cannot be opened is told as a setting to mend, with the place that it names."""
    break_(tmp_path)
    with pytest.raises(InvalidSettings) as refused:
        wiring.build(wiring.settings(settings))
    assert settings[name].partition(":")[2] in str(refused.value)


def test_ports_are_closed_once_and_for_all(settings: dict[str, str]) -> None:
    """F33c: Closing the ports closes their SQLite files."""
    ports = wiring.build(wiring.settings(settings))
    ports.close()
    with pytest.raises(Unavailable):
        ports.store.get(_KEY)
    with pytest.raises(Unavailable):
        ports.buckets.lease("t1", 1, now=0)


def test_what_was_opened_for_nothing_is_closed(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F33b: If a later port cannot be opened, the ports that were opened before are closed."""
    opened: list[SqliteStore] = []
    # A bound method would not be given the store.
    monkeypatch.setattr(SqliteStore, "close", lambda store: opened.append(store))  # noqa: PLW0108
    (tmp_path / "blobs").write_text("no folder")
    with pytest.raises(InvalidSettings):
        wiring.build(wiring.settings(settings))
    monkeypatch.undo()
    (store,) = opened
    store.close()


def test_a_missing_region_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapters of AWS without a region are told as a setting to mend, too."""
    pretend_credentials(monkeypatch)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    environment = {
        "RESCIND_STORE": "dynamodb:x-",
        "RESCIND_BLOBS": "s3:b",
        "RESCIND_KEY_WRAPPER": "kms:k",
    }
    with pytest.raises(InvalidSettings, match="AWS_DEFAULT_REGION"):
        wiring.build(wiring.settings(environment))


def test_an_address_that_is_none_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """F640: An endpoint of AWS that is no address is told as a setting to mend."""
    pretend_credentials(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "minio:9000")
    with pytest.raises(InvalidSettings, match="set AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL"):
        s3.connect()


def test_s3_alone_needs_a_region_or_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """F640: Signed addresses name the region of S3; a server of one's own has none to name."""
    pretend_credentials(monkeypatch)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(InvalidSettings, match="AWS_DEFAULT_REGION"):
        s3.connect()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    s3.connect().close()


@pytest.mark.parametrize(
    ("blobs", "adapter"),
    [("file:{}/blobs", FileBlobs), ("s3:b", S3Blobs), ("azure:acc/box", AzureBlobs)],
)
def test_blobs_need_not_be_where_the_store_is(
    settings: dict[str, str], tmp_path: Path, blobs: str, adapter: type[BlobStore]
) -> None:
    """F642a: Blobs in files, S3 or Azure go with any store."""
    url = postgresql.emptied()
    for store in (settings["RESCIND_STORE"], url):
        named = {"RESCIND_STORE": store, "RESCIND_BLOBS": blobs.format(tmp_path)}
        ports = wiring.assemble(wiring.settings(settings | named))
        assert isinstance(ports.blobs, adapter)
        close(ports)


def test_blobs_of_postgresql_need_its_store(settings: dict[str, str]) -> None:
    """F642b: `postgresql:` names the database of the store; another store has none."""
    with pytest.raises(InvalidSettings, match="requires RESCIND_STORE=postgresql"):
        wiring.assemble(wiring.settings(settings | {"RESCIND_BLOBS": "postgresql:"}))
    ports = wiring.assemble(
        wiring.settings(
            settings | {"RESCIND_STORE": postgresql.emptied(), "RESCIND_BLOBS": "postgresql:"}
        )
    )
    assert isinstance(ports.blobs, PostgresqlBlobs)
    close(ports)


def test_the_queue_of_the_environment(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sqs:` gives the queue at the address that it names, made once a process."""
    wiring.queue_from_environment.cache_clear()
    with aws() as account:
        for name, value in (settings | {"RESCIND_QUEUE": f"sqs:{account.queue_url}"}).items():
            monkeypatch.setenv(name, value)
        queue = wiring.queue_from_environment()
        assert wiring.queue_from_environment() is queue
        queue.send(["svc_tnt_a"])
        client = sqs.connect()
        (message,) = client.receive_message(QueueUrl=account.queue_url)["Messages"]
        client.close()
    assert message["Body"] == "svc_tnt_a"
    wiring.queue_from_environment.cache_clear()


def test_what_fails_before_a_snapshot_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong settings do not stop a deployment: the error is logged, and each request raises it."""
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")
    monkeypatch.delenv("RESCIND_STORE", raising=False)
    wiring.from_environment.cache_clear()
    wiring.prepare_snapshot()
    assert "before the snapshot" in caplog.text
    with pytest.raises(InvalidSettings):
        wiring.from_environment()


def test_a_queue_that_is_not_set_is_a_wrong_setting(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever needs the queue and has none is told what to set; the ports do without it."""
    wiring.queue_from_environment.cache_clear()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RESCIND_QUEUE", raising=False)
    with pytest.raises(InvalidSettings, match="RESCIND_QUEUE is not set; set it to sqs:…"):
        wiring.queue_from_environment()


def test_the_time_is_in_utc() -> None:
    """`now` is the present, with its time zone."""
    assert abs(wiring.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert wiring.now().utcoffset() == timedelta()


@pytest.mark.parametrize(
    "microseconds",
    [
        [0] * 10_000,
        [0, 1, 0, 0, 400, 600, 0, 999, 1, 0] * 100,
        [0, -1000, 0, 500, -60_000_000, 0, 1000],
    ],
    ids=["stands still", "goes", "steps back"],
)
def test_identifiers_sort_whatever_the_clock_does(microseconds: list[float]) -> None:
    """API-14, F09: An identifier that is made later sorts after one that is made earlier."""
    clock = Clock()
    new_id, made = wiring.identifiers(clock), []
    for step in microseconds:
        clock.advance(microseconds=step)
        made.append(new_id("evt"))
    _assert_rising(made)


def test_threads_share_a_maker() -> None:
    """Many threads at one maker get as many identifiers, each thread's own in order."""
    new_id = wiring.identifiers(wiring.now)
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda _: [new_id("evt") for _ in range(500)], range(8)))
    for batch in batches:
        _assert_rising(batch)
    assert len(set(chain.from_iterable(batches))) == 8 * 500


def test_two_makers_never_meet() -> None:
    """Two processes at one moment make different identifiers."""
    clock = Clock()
    first, second = wiring.identifiers(clock), wiring.identifiers(clock)
    made = [maker("evt") for maker in (first, second) for _ in range(1000)]
    assert len(set(made)) == 2000


def _assert_rising(made: list[str]) -> None:
    assert all(first < second for first, second in pairwise(made))
