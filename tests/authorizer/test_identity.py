"""The key of a client, and the registrations and reports that it signs."""

import base64
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as other_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shared.authorizer import FileStateStore, events, files, reporter
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from shared.authorizer.reporter import IdentityKey, IdentityKeyCorrupt
from shared.authorizer.reports import ReportingState
from shared.authorizer.saved_state import MemoryStateStore
from tests.authorizer.clients import Made
from tests.authorizer.feeds import TENANT, signer
from tests.authorizer.service import PIN, Response, Service
from tests.kit.waiting import soon

ID = "svc_azr_01KAJ3TMF0000000000000GATE"
_PARTS = ("payload", "signature")
REGISTER = "/v1/authorizers/register"
ACCEPTED: dict[str, Any] = {
    "id": ID,
    "status": "ok",
    "last_number": 0,
    "report_after_seconds": 300,
    "jitter_seconds": 0,
}


@pytest.fixture
def service(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr("shared.authorizer.reports._BACKOFF", 0.02)
    service.registry = dict(ACCEPTED)
    return service


def posted(service: Service, path: str) -> list[dict[str, Any]]:
    return [body for each, body in service.posted if each.endswith(path)]


def proof(body: dict[str, Any]) -> SignedRegistration:
    """The proof of a registration, which is checked as the service does it."""
    payload, signature = (
        base64.b64decode(body["proof"][name]) for name in ("payload", "signature")
    )
    now = datetime.now(UTC)
    return SignedRegistration.verify_and_decode(payload, signature, tenant_id=TENANT, now=now)


def report(body: dict[str, Any], key: bytes) -> SignedReport:
    """The signed report in a heartbeat, which is checked as the service does it."""
    payload, signature = (base64.b64decode(body[name]) for name in ("report", "signature"))
    return SignedReport.verify_and_decode(payload, signature, public_key=key)


# --- the file ---


def test_the_key_is_beside_the_saved_state(tmp_path: Path) -> None:
    """F780a: The key is made once, in a file that only its owner can read."""
    folder = tmp_path / "state"
    made = reporter.of_folder(folder)
    assert stat.S_IMODE((folder / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in folder.iterdir()] == ["identity.key"]
    assert reporter.of_folder(folder).public_key == made.public_key
    assert IdentityKey.new().public_key != IdentityKey.new().public_key


def test_processes_that_share_a_folder_share_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F780b: Of many that make the key at once, one does, and all have the same."""
    replace, made, meeting = files.replace, list[bytes](), threading.Barrier(2)

    def slow(path: Path, data: bytes) -> None:
        made.append(data)
        # Another one that may write comes here meanwhile.
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)
        replace(path, data)

    monkeypatch.setattr("shared.authorizer.reporter.files.replace", slow)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: reporter.of_folder(tmp_path / "state"), range(32)))
    assert (len(made), len({each.public_key for each in found})) == (1, 1)


_OTHER_KEY = other_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("data", [b"", b"no key", _OTHER_KEY], ids=["empty", "text", "other"])
def test_a_damaged_key_is_not_replaced(tmp_path: Path, data: bytes, made: Made) -> None:
    """F780c: A damaged key is left as it is; the client says what to do, and decides as ever."""
    path = tmp_path / "identity.key"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(IdentityKeyCorrupt, match="Delete the file"):
        reporter.of_folder(tmp_path)
    seen: list[events.Event] = []
    client = made(state=FileStateStore(tmp_path), on_event=seen.append).start()
    soon(lambda: any(isinstance(each, events.ReportFailed) for each in seen))
    assert client.status.reporting is ReportingState.FAILING
    assert not client.status.stale
    assert path.read_bytes() == data
    # It recovers by itself.
    path.unlink()
    soon(lambda: client.status.reporting is ReportingState.ON)


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    """F780d: A key that others can read is not used until it is private again."""
    made = reporter.of_folder(tmp_path)
    path = tmp_path / "identity.key"
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(IdentityKeyCorrupt, match=f"chmod 600 {path}"):
            reporter.of_folder(tmp_path)
    path.chmod(0o600)
    assert reporter.of_folder(tmp_path).public_key == made.public_key


def test_a_key_that_cannot_be_kept(tmp_path: Path, service: Service, made: Made) -> None:
    """F780e: If the key cannot be kept, the client sends no report, and says why."""
    (tmp_path / "identity.key").mkdir()
    seen: list[events.Event] = []
    client = made(state=FileStateStore(tmp_path), on_event=seen.append).start()
    soon(lambda: any(isinstance(each, events.ReportFailed) for each in seen))
    (failed, *_) = [each for each in seen if isinstance(each, events.ReportFailed)]
    assert "identity.key" in failed.message
    assert (service.posted, client.status.stale) == ([], False)
    (tmp_path / "identity.key").rmdir()
    soon(lambda: client.status.reporting is ReportingState.ON)


def test_a_client_without_a_folder_has_a_new_key(service: Service, made: Made) -> None:
    """F780f: A client that keeps nothing signs with a key that ends with it."""
    for number in range(2):
        client = made(state=MemoryStateStore()).start()
        soon(lambda number=number: len(posted(service, "heartbeat")) > number)  # type: ignore[misc]
        client.close()
    keys = [proof(each).public_key for each in posted(service, REGISTER)]
    assert len({*keys}) == 2
    for body, key in zip(posted(service, "heartbeat"), keys, strict=True):
        assert report(body, key).authorizer_id == ID


# --- what is signed ---


def test_a_client_signs_what_it_reports(service: Service, made: Made, tmp_path: Path) -> None:
    """TRUST-10, F781a: A client proves its key, and signs what it holds."""
    client = made(state=FileStateStore(tmp_path), name="gate").start()
    soon(lambda: posted(service, "heartbeat"))
    service.revoke("svc_wrt_a")
    soon(lambda: len(posted(service, "heartbeat")) > 1)
    registered = proof(posted(service, REGISTER)[0])
    key = reporter.of_folder(tmp_path).public_key
    assert (registered.name, registered.public_key) == ("gate", key)
    first, second = posted(service, "heartbeat")[:2]
    found = report(second, key)
    assert (found.tenant_id, found.authorizer_id, found.trust) == (TENANT, ID, 1)
    assert second.keys() == {"report", "signature"}
    assert (found.sequence, found.chain.hex()) == (1, client.status.chain)
    assert (found.max_staleness, found.fail_open) == (30, False)
    assert found.verified_at
    assert abs((datetime.now(UTC) - found.verified_at).total_seconds()) < 60
    assert report(first, key).number < found.number
    assert abs(found.number / 1000 - time.time()) < 60


def test_a_report_has_the_version_of_the_trust_document(service: Service, made: Made) -> None:
    """TRUST-10, F781d: A report says which trust document the client holds."""
    service.revoke("svc_wrt_a")
    document = service.vouch(service.feed.key, signer(102)).document
    client = made(trust_pin=PIN).start()
    soon(lambda: client.status.reporting is ReportingState.ON)
    key = proof(posted(service, REGISTER)[0]).public_key
    assert report(posted(service, "heartbeat")[0], key).trust == document.version == 2


def test_numbers_rise_whatever_the_clock_says(
    service: Service, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLEET-27, F781b: Numbers rise while the clock goes back, and above those of the service.

    The service has higher ones if the clock was ahead before a restart.
    """
    ahead = time.time_ns() // 1_000_000 + 10**10
    service.registry = ACCEPTED | {"last_number": ahead}
    made().start()
    soon(lambda: posted(service, "heartbeat"))
    key = proof(posted(service, REGISTER)[0]).public_key
    monkeypatch.setattr("shared.authorizer.reporter.time.time_ns", lambda: 0)
    for number in range(3):
        service.revoke(f"svc_wrt_{number}")
        soon(lambda number=number: len(posted(service, "heartbeat")) > number + 1)  # type: ignore[misc]
    numbers = [report(each, key).number for each in posted(service, "heartbeat")]
    assert numbers == [*range(ahead + 1, ahead + 1 + len(numbers))]


@pytest.mark.parametrize("bad", [-1, "1", None, True, 2**53, 1e30])
def test_a_last_number_that_is_none(service: Service, made: Made, bad: Any) -> None:
    """F781c: If the answer to a registration has no usable number, the clock counts."""
    service.registry = ACCEPTED | {"last_number": bad}
    made().start()
    soon(lambda: posted(service, "heartbeat"))
    key = proof(posted(service, REGISTER)[0]).public_key
    number = report(posted(service, "heartbeat")[0], key).number
    assert abs(number / 1000 - time.time()) < 60


def test_a_refused_report_makes_the_client_register(service: Service, made: Made) -> None:
    """FLEET-27, F782a: After a refused report a client proves its key again, and goes on."""
    refusals = [Response(b'{"error": {"code": "conflict", "message": "no"}}', 409)]

    def instead(path: str) -> Response | None:
        return refusals.pop() if path.endswith("heartbeat") and refusals else None

    service.instead = instead
    client = made().start()
    soon(lambda: client.status.reporting is ReportingState.ON)
    assert len(posted(service, REGISTER)) == 2
    assert len({proof(each).public_key for each in posted(service, REGISTER)}) == 1


def test_a_name_that_is_taken(
    service: Service, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """FLEET-27, F782b: A client whose name is taken says what the service said, and asks again."""
    caplog.set_level("INFO", "rescind_authorizer")
    words = b'{"error": {"code": "conflict", "message": "run rescind authorizers remove"}}'
    service.instead = lambda path: Response(words, 409) if path == REGISTER else None
    client = made().start()
    soon(lambda: "rescind authorizers remove" in caplog.text)
    assert client.status.reporting is ReportingState.FAILING
    service.instead = lambda _path: None
    soon(lambda: client.status.reporting is ReportingState.ON)


@pytest.mark.parametrize("hours", [-7, 7])
def test_a_client_whose_clock_is_wrong(service: Service, made: Made, hours: int) -> None:
    """FLEET-27, F782c: A client whose clock is wrong signs its proof with the service's time."""
    there = datetime.now(UTC) + timedelta(hours=hours)

    def instead(path: str) -> Response | None:
        if path != REGISTER:
            return None
        body = service.posted[-1][1]
        payload, signature = (base64.b64decode(body["proof"][each]) for each in _PARTS)
        try:
            SignedRegistration.verify_and_decode(payload, signature, tenant_id=TENANT, now=there)
        except NotTrusted:
            return Response(
                b"the clock is wrong", 400, {"Date": format_datetime(there, usegmt=True)}
            )
        return None

    service.instead = instead
    client = made().start()
    soon(lambda: client.status.reporting is ReportingState.ON)
    assert len(posted(service, REGISTER)) == 2


def test_a_service_without_a_clock(service: Service, made: Made) -> None:
    """F782d: A refusal without a time that can be read is taken for what it is."""
    dates = ["", "yesterday", "Thu, 01 Jan 1970 00:00:00"]
    for date in dates:
        headers = {"Date": date} if date else {}
        answer = Response(b"no", 400, headers)
        service.instead = lambda path, answer=answer: answer if path == REGISTER else None  # type: ignore[misc]
        client = made().start()
        soon(lambda client=client: client.status.reporting is ReportingState.UNSUPPORTED)  # type: ignore[misc]
        client.close()
