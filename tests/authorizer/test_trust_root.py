"""A client with one pin, against a service on loopback that publishes trust documents."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared.authorizer import (
    AuthorizerClient,
    DamagedFloor,
    Decision,
    FileFloor,
    Guard,
    Policy,
    Saved,
    trust,
    view,
)
from shared.authorizer.__main__ import main
from shared.authorizer.belief import Belief
from shared.authorizer.events import Event, Failed, Refused, TrustChanged
from shared.authorizer.floor import Floor, MemoryFloor
from shared.authorizer.follower import Follower
from shared.authorizer.formats.documents import answer
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import PublishedKey, covering
from shared.authorizer.formats.warrants import Claims
from shared.authorizer.formats.wire import Position
from shared.authorizer.transport import Transport
from shared.model import warrant_format
from tests.authorizer import roots
from tests.authorizer.bundles import ISSUER_ID, ROOT_ID
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import NOW, TENANT, Feed, public, signer
from tests.authorizer.service import KEY, PIN, Response, Service, serving
from tests.kit.waiting import soon

_STANDBY = signer(2)


@contextmanager
def followed(
    service: Service, floor: Floor | None = None, pin: str = PIN, tenant: str = TENANT
) -> Iterator[tuple[Follower, list[Event]]]:
    """A follower with a pin that has taken up its floor, and its events."""
    seen: list[Event] = []
    asker = Transport(service.url, api_key=KEY)
    made = Follower(
        asker, floor or MemoryFloor(), Belief.of(tenant, pin, ()), Policy(), seen.append
    )
    with closing(asker):
        made.load()
        yield made, seen


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        made.revoke("svc_wrt_a")
        made.vouch(made.feed.key, _STANDBY)
        yield made


def _refusal(made: Follower, seen: list[Event]) -> str:
    """Why the next poll is refused."""
    made.poll()
    assert isinstance(seen[-1], Refused), seen
    return seen[-1].reason


def _asked(service: Service, path: str) -> list[str]:
    return [each for each, _ in service.asked if urlsplit(each).path.startswith(path)]


def test_one_pin_lasts_through_rotation_theft_restore_and_root_rotation(
    service: Service, tmp_path: Path
) -> None:
    """TRUST-12, TRUST-14, F725a: A client with one pin needs no visit, and never clears a lie.

    Each time it is started anew with its floor, as after an upgrade of the machine.
    """
    sequences = []

    def follow() -> None:
        with followed(service, FileFloor(tmp_path)) as (made, seen):
            made.poll()
            assert made.view.is_fresh(), seen
            assert made.view.state
            sequences.append(made.view.state.sequence)
            assert made.view.revoked.whole or made.view.revoked.added

    follow()
    # A rotation: the standby signer signs, then a document names the next standby one.
    service.feed.key = _STANDBY
    service.revoke("svc_wrt_b")
    follow()
    service.vouch(_STANDBY, signer(3))
    follow()
    # A theft: the break is 2^20 higher, and the document drops the stolen signer.
    service.feed.key = signer(3)
    service.feed.publish(leap=2**20)
    service.feed.publish_list()
    service.vouch(signer(3), signer(4))
    follow()
    # Three rotations of the roots, of which the client sees the last.
    for root in (202, 203, 204):
        service.vouch(signer(3), signer(4), by=root)
    follow()
    # A restore: a new list signer, and a version 2^20 higher.
    restored = Feed(ids={"svc_wrt_a"}, key=signer(5))
    restored.publish(leap=2**21)
    restored.publish_list()
    service.feed = restored
    service.vouch(signer(5), version=2**20, by=204)
    follow()
    assert sequences == sorted(sequences)
    with followed(service, FileFloor(tmp_path), roots.roots(204).pin) as (made, _):
        made.poll()
        assert made.view.is_fresh()
        assert _asked(service, "/v1/trust")[-1] == "/v1/trust?after=6"


def test_a_poll_without_a_change_makes_no_other_request(service: Service) -> None:
    """F726a: A client reads a document if a head needs it, and asks for nothing else."""
    with followed(service) as (made, seen):
        for _ in range(3):
            made.poll()
        assert _asked(service, "/v1/trust") == ["/v1/trust?after=0"]
        assert not _asked(service, "/v1/revocations/srl")
        service.revoke("svc_wrt_b")
        made.poll()
        assert len(_asked(service, "/v1/trust")) == 1
        service.vouch(service.feed.key, _STANDBY)
        made.poll()
        assert _asked(service, "/v1/trust")[1:] == ["/v1/trust?after=1"]
        assert [each for each in seen if isinstance(each, TrustChanged)] == [
            TrustChanged(1, PIN),
            TrustChanged(2, PIN),
        ]


def test_a_document_counts_only_once_it_is_saved(service: Service, tmp_path: Path) -> None:
    """TRUST-12, F727a: If the document cannot be saved, no head by its signers is accepted."""
    floor = FileFloor(tmp_path / "floor")
    with followed(service, floor) as (made, seen):
        made.poll()
        service.vouch(_STANDBY)
        service.feed.key = _STANDBY
        service.revoke("svc_wrt_b")
        path = tmp_path / "floor" / "floor.json"
        saved = path.read_bytes()
        path.write_bytes(b"no floor")
        made.poll()
        assert isinstance(seen[-1], Failed)
        assert made.view.state
        assert made.view.state.sequence == 1
        path.write_bytes(saved)
        made.poll()
        assert made.view.state.sequence == 2


def test_no_older_document_after_a_restart(service: Service, tmp_path: Path) -> None:
    """TRUST-12, F727b: What a document dropped stays dropped, also if the restart is offline."""
    old = answer(service.documents)
    with followed(service, FileFloor(tmp_path)) as (made, _):
        made.poll()
        service.vouch(_STANDBY)
        service.feed.key = _STANDBY
        service.sign()
        made.poll()
        assert made.view.is_fresh()
    service.instead = lambda _path: Response(b"", 503)
    with followed(service, FileFloor(tmp_path)) as (made, seen):
        assert made.view.is_fresh()
        service.feed.key = signer()
        service.documents.pop()
        service.instead = lambda path: Response(old) if path.startswith("/v1/trust?") else None
        service.revoke("svc_wrt_b")
        assert _refusal(made, seen) == "rollback"
        service.instead = lambda _path: None
        # An answer without news does not help the thief either.
        assert _refusal(made, seen) in {"signature", "rollback"}


def test_a_relay_hides_no_document(service: Service) -> None:
    """TRUST-13, F728a: A head that names a document which nobody shows is refused as `behind`."""
    hidden = answer(service.documents)
    with followed(service) as (made, seen):
        made.poll()
        service.vouch(service.feed.key, _STANDBY)
        service.instead = lambda path: Response(hidden) if path.startswith("/v1/trust?") else None
        assert _refusal(made, seen) == "behind"
        service.instead = lambda path: Response(b"", 503) if path.startswith("/v1/trust?") else None
        assert _refusal(made, seen) == "behind"
        service.instead = lambda _path: None
        made.poll()
        assert isinstance(made.belief, Belief)
        assert made.belief.version == 2


def test_documents_freeze_nobody_longer_than_they_live(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRUST-13, F728b: Without a newer document a client is stale from `ExpiresAt` on.

    So it is if the service confirms the head again and again. A document makes it go on.
    """
    lifetime = timedelta(seconds=100)
    now = datetime.now(UTC).replace(microsecond=0)
    service.vouch(issued_at=now, expires_at=now + lifetime)
    with followed(service) as (made, seen):
        made.poll()
        assert made.view.is_fresh()
        with monkeypatch.context() as patched:
            patched.setattr(view, "now", lambda: time.time() + 101)
            assert not made.view.is_fresh()

        monkeypatch.setattr(view, "now", lambda: time.time() + 200)
        assert _refusal(made, seen) == "trust_expired"
        assert _refusal(made, seen) == "trust_expired"
        later = now + 2 * lifetime
        service.vouch(issued_at=later, expires_at=later + lifetime)
        made.poll()
        assert isinstance(made.belief, Belief)
        assert made.belief.version == 3
        assert not isinstance(seen[-1], Refused)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_thief_who_led_the_client_ahead(service: Service, tmp_path: Path, restarts: bool) -> None:
    """TRUST-14, F729a: A document that drops a stolen signer brings the client back.

    What the thief published clears nothing from then on, and what it revokes stays revoked.
    """
    genuine = service.feed
    thief = genuine.branch()
    thief.publish("svc_wrt_thief", removed=("svc_wrt_a",), leap=2**30)
    thief.publish_list()
    service.feed = thief
    service.sign()
    with followed(service, FileFloor(tmp_path)) as (made, seen):
        made.poll()
        assert made.view.is_fresh()
        assert "svc_wrt_a" not in made.view.revoked
        # The service rotates. The thief still answers, but the document comes through.
        service.feed = genuine
        genuine.key = _STANDBY
        service.vouch(_STANDBY, signer(3))
        service.feed = thief
        service.sign()
        assert _refusal(made, seen) == "signature"
        assert not made.view.is_fresh()
        assert not made.view.is_trusted
        assert "svc_wrt_thief" in made.view.revoked
        service.feed = genuine
        service.sign()
        if not restarts:
            made.poll()
            assert made.view.is_fresh()
            assert "svc_wrt_a" in made.view.revoked
            assert "svc_wrt_thief" not in made.view.revoked
    with followed(service, FileFloor(tmp_path)) as (made, _):
        assert made.view.state is None or not restarts
        made.poll()
        assert made.view.is_fresh()
        assert "svc_wrt_a" in made.view.revoked


def test_a_client_without_a_state_keeps_its_position(service: Service, tmp_path: Path) -> None:
    """TRUST-14, F729b: A document that comes while the base is lost takes no position away."""
    before = Feed(ids=set())
    with followed(service, FileFloor(tmp_path)) as (made, _):
        made.poll()
    for each in tmp_path.glob("base-*"):
        each.unlink()
    newer = service.feed
    service.vouch(newer.key, feed=Position(0, before.chain))
    service.feed = before
    service.sign()
    for _ in range(2):
        with followed(service, FileFloor(tmp_path)) as (made, seen):
            assert _refusal(made, seen) == "rollback"
    service.feed = newer
    with followed(service, FileFloor(tmp_path)) as (made, _):
        made.poll()
        assert made.view.is_fresh()


# --- the signing keys that a head names ---


def _key(number: int) -> PublishedKey:
    return PublishedKey(f"svc_key_{number}", 1, "root", "active", public(signer(number)), NOW)


def test_the_keys_are_those_of_the_head(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRUST-5, TRUST-9, F731a: A view has the keys that its own head names, or none.

    They are read once for each change. If they cannot be read, the feed goes on.
    """
    monkeypatch.setattr(trust, "_SECONDS", 0.0)
    with followed(service) as (made, seen):
        service.publish_keys(_key(20))
        made.poll()
        assert made.view.keys is None
        made.wants_keys = True
        made.poll()
        assert made.view.keys
        assert set(made.view.keys.current) == {"svc_key_20"}
        service.publish_keys(_key(20), _key(21))
        service.revoke("svc_wrt_b")
        for _ in range(3):
            made.poll()
        assert made.view.keys
        assert len(made.view.keys.current) == 2
        assert len(_asked(service, "/v1/trust/keys/")) == 2
        for other in (Response(b"", 503), Response(b"x"), Response(b"x" * 10_000)):
            service.instead = lambda path, other=other: other if "/keys/" in path else None
            service.publish_keys(_key(22), _key(len(service.blobs) + 30))
            service.revoke(f"svc_wrt_{len(service.blobs)}")
            made.poll()
            assert made.view.keys is None
            assert made.view.state
            assert made.view.state.sequence == service.feed.sequence
        service.instead = lambda _path: None
        made.poll()
        assert made.view.keys
        assert Refused("hash") in seen


def test_keys_that_cannot_be_read_are_not_asked_for_at_once(service: Service) -> None:
    """F731b: A client leaves the service alone for some seconds if the keys are not there."""
    with followed(service) as (made, seen):
        made.wants_keys = True
        service.publish_keys(_key(20))
        service.blobs.clear()
        for _ in range(3):
            made.poll()
        assert len(_asked(service, "/v1/trust/keys/")) == 1
        assert any(isinstance(each, Failed) for each in seen)
        assert made.view.is_fresh()


def test_keys_that_the_document_does_not_cover_are_refused(service: Service) -> None:
    """TRUST-15, F731c: A thief of the list signer adds no signing key, whatever a head names."""
    service.vouch(signing_keys=covering([_key(20)]))
    with followed(service) as (made, seen):
        made.wants_keys = True
        service.publish_keys(_key(20))
        made.poll()
        assert made.view.keys
        service.publish_keys(_key(20), _key(21))
        made.poll()
        assert made.view.keys is None
        assert Refused("certificate") in seen
        service.vouch(signing_keys=covering([_key(20), _key(21)]))
        made._keys._due = 0
        made.poll()
        assert made.view.keys
        assert made.view.is_fresh()


# --- the whole client ---


def test_a_client_and_a_guard_with_one_pin(service: Service, tmp_path: Path) -> None:
    """TRUST-5, F732a: A guard decides by the keys of the head, as long as the feed is fresh.

    It asks for no trust bundle. Without keys it allows nothing.
    """
    root = PublishedKey(ROOT_ID, 1, "root", "active", public(signer(31)), NOW)
    issuer = PublishedKey(ISSUER_ID, 1, "issuer", "active", public(signer(32)), NOW, ROOT_ID)
    claims = Claims(TENANT, "svc_wrt_b", datetime.now(UTC).replace(microsecond=0), None, b"pay")
    seed = signer(32).private_bytes_raw()
    warrant = warrant_format.sign(claims, key_id=ISSUER_ID, key_version=1, seed=seed).encode()
    policy = Policy(max_staleness=0.5, poll_seconds=0.01)
    client = AuthorizerClient(service.url, **arguments(trust_root=PIN, policy=policy))
    guard = Guard(client)
    with client.start():
        assert guard.decide([warrant]) == Decision(False, "unknown")
        service.publish_keys(root, issuer)
        soon(lambda: guard.decide([warrant]).is_allowed)
        service.publish_keys(root, issuer._replace(status="revoked", revoked_at=NOW))
        soon(lambda: guard.decide([warrant]) == Decision(False, "revoked"))
        service.publish_keys(root, issuer)
        soon(lambda: guard.decide([warrant]).is_allowed)
        service.revoke("svc_wrt_b")
        soon(lambda: guard.decide([warrant]) == Decision(False, "revoked"))
        service.instead = lambda _path: Response(b"", 503)
        other = replace(claims, warrant_id="svc_wrt_c")
        warrant = warrant_format.sign(other, key_id=ISSUER_ID, key_version=1, seed=seed).encode()
        soon(lambda: guard.decide([warrant]) == Decision(False, "stale"))
    assert not _asked(service, "/v1/trust-bundle")


def test_the_command_takes_a_pin(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F732b: `status --root PIN` prints what a client with this pin holds."""
    monkeypatch.setenv("RESCIND_API_KEY", KEY)
    assert main(["status", service.url, "--tenant", TENANT, "--root", PIN]) == 0
    assert "sequence: 1\n" in capsys.readouterr().out
    assert main(["status", service.url, "--tenant", TENANT]) == 1


# --- the floor ---


def _floors(service: Service, folder: Path) -> Saved:
    with followed(service, FileFloor(folder)) as (made, _):
        made.poll()
    saved = FileFloor(folder).load()
    assert saved
    return saved


def test_a_document_in_a_floor_is_read_or_an_error(service: Service, tmp_path: Path) -> None:
    """TRUST-12, F734a: A damaged document in a floor is an error, and not forgotten."""
    saved = _floors(service, tmp_path)
    assert saved.trust
    assert saved.trust.held == service.documents[0]
    path = tmp_path / "floor.json"
    members = json.loads(path.read_bytes().partition(b"\n")[2])
    for text in ("{}", '{"documents": []}', 1):
        members["trust"]["documents"] = text
        data = json.dumps(members).encode()
        path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        with pytest.raises(DamagedFloor, match="is damaged"):
            FileFloor(tmp_path).load()


def test_a_newer_document_makes_a_newer_floor(service: Service, tmp_path: Path) -> None:
    """TRUST-14, F734b: Of processes with one folder, one with an older document saves nothing.

    So what a document replaced does not come back, although its sequence is higher.
    """
    saved = _floors(service, tmp_path)
    assert saved.trust
    newer = replace(saved, trust=replace(saved.trust, held=service.vouch(_STANDBY)))
    one, other = FileFloor(tmp_path), FileFloor(tmp_path)
    one.save(newer)
    other.save(replace(saved, sequence=2**40))
    assert other.load() == newer


def test_processes_with_other_roots_do_not_share_a_folder(service: Service, tmp_path: Path) -> None:
    """TRUST-7, F734c: A process with another pin takes the folder over, and the older one stops.

    A process with the pin of the present roots is no other.
    """
    older = FileFloor(tmp_path)
    saved = _floors(service, tmp_path)
    assert saved.trust
    older.save(saved)
    rotated = replace(saved.trust, held=service.vouch(by=202))
    older.save(replace(saved, trust=rotated))
    same = FileFloor(tmp_path)
    same.load()
    same.save(replace(saved, sequence=2, trust=rotated.pinned(roots.roots(202).pin)))
    older.save(replace(saved, sequence=3, trust=rotated))
    other = FileFloor(tmp_path)
    other.load()
    foreign = TrustState(TENANT, roots.roots(1).pin, roots.first(1))
    other.save(replace(saved, sequence=1, trust=foreign))
    with pytest.raises(DamagedFloor, match="another trust_root"):
        older.save(replace(saved, sequence=9, trust=rotated))
    assert other.load() == replace(saved, sequence=1, trust=foreign)


def test_another_pin_begins_anew_with_the_floor_of_the_one_before(
    service: Service, tmp_path: Path
) -> None:
    """TRUST-7, F734d: After the loss of a root, a client with the new pin goes on with its floor.

    The position counts as long as the new document names the signer of the saved head.
    """
    _floors(service, tmp_path)
    service.documents.clear()
    service.root = 205
    service.vouch(by=205)
    old = service.feed
    service.feed = Feed()
    service.sign()
    with followed(service, FileFloor(tmp_path), roots.roots(205).pin) as (made, seen):
        assert made.view.state is None
        assert _refusal(made, seen) == "rollback"
        service.feed = old
        service.sign()
        made.poll()
        assert made.view.is_fresh()
    with followed(service, FileFloor(tmp_path), roots.roots(205).pin) as (made, seen):
        assert made.view.is_fresh()
