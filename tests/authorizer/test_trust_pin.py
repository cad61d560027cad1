"""A client with one pin, against a service on loopback that publishes trust documents."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared.authorizer import (
    AuthorizerClient,
    FileStateStore,
    Guard,
    GuardDecision,
    PollPolicy,
    SavedState,
    SavedStateCorrupt,
)
from shared.authorizer.__main__ import main
from shared.authorizer.events import Event, PollFailed, ResponseRejected, TrustChanged
from shared.authorizer.follower import FeedFollower
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.signing_keys import PublishedKey
from shared.authorizer.formats.warrants import Claims
from shared.authorizer.saved_state import MemoryStateStore, StateStore
from shared.authorizer.transport import Transport
from shared.authorizer.trust import KeyFetcher
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
    service: Service, store: StateStore | None = None, pin: str = PIN, tenant: str = TENANT
) -> Iterator[tuple[FeedFollower, list[Event]]]:
    """A follower with a pin that has taken up its saved state, and its events."""
    seen: list[Event] = []
    asker = Transport(service.url, api_key=KEY)
    trust = TrustState(tenant, pin)
    made = FeedFollower(asker, store or MemoryStateStore(), trust, PollPolicy(), seen.append)
    with closing(asker):
        made.load()
        yield made, seen


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        made.revoke("svc_wrt_a")
        made.vouch(made.feed.key, _STANDBY)
        yield made


def _asked(service: Service, path: str) -> list[str]:
    return [each for each, _ in service.asked if urlsplit(each).path.startswith(path)]


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


# --- the signing keys that a head names ---


def test_keys_that_cannot_be_read_are_not_asked_for_at_once(service: Service) -> None:
    """F731a: A client leaves the service alone for some seconds if the keys are not there."""
    with followed(service) as (made, seen):
        reader = KeyFetcher(made.transport, made, seen.append)
        reader.is_wanted = True
        key = PublishedKey("svc_key_20", 1, "root", "active", public(signer(20)), NOW)
        service.publish_keys(key)
        service.blobs.clear()
        for _ in range(3):
            made.poll()
            reader.fetch_if_due()
        assert len(_asked(service, "/v1/trust/keys/")) == 1
        assert any(isinstance(each, PollFailed) for each in seen)
        assert made.view.is_fresh()


# --- the whole client ---


def test_a_client_and_a_guard_with_one_pin(
    service: Service, pass_time: Callable[[float], None]
) -> None:
    """TRUST-5, F732a: A guard decides by the keys of the head, as long as the feed is fresh.

    It asks for no trust bundle. Without keys it allows nothing.
    """
    root = PublishedKey(ROOT_ID, 1, "root", "active", public(signer(31)), NOW)
    issuer = PublishedKey(ISSUER_ID, 1, "issuer", "active", public(signer(32)), NOW, ROOT_ID)
    claims = Claims(TENANT, "svc_wrt_b", datetime.now(UTC).replace(microsecond=0), None, b"pay")
    seed = signer(32).private_bytes_raw()
    warrant = warrant_format.sign(claims, key_id=ISSUER_ID, key_version=1, seed=seed).encode()
    client = AuthorizerClient(service.url, **arguments(trust_pin=PIN))
    guard = Guard(client)
    with client.start():
        assert guard.decide([warrant]) == GuardDecision(False, "unknown")
        service.publish_keys(root, issuer)
        soon(lambda: guard.decide([warrant]).is_allowed)
        service.publish_keys(root, issuer._replace(status="revoked", revoked_at=NOW))
        soon(lambda: guard.decide([warrant]) == GuardDecision(False, "revoked"))
        service.publish_keys(root, issuer)
        soon(lambda: guard.decide([warrant]).is_allowed)
        service.revoke("svc_wrt_b")
        soon(lambda: guard.decide([warrant]) == GuardDecision(False, "revoked"))
        service.instead = lambda _path: Response(b"", 503)
        other = replace(claims, warrant_id="svc_wrt_c")
        warrant = warrant_format.sign(other, key_id=ISSUER_ID, key_version=1, seed=seed).encode()
        assert guard.decide([warrant]).is_allowed
        pass_time(31)
        soon(lambda: guard.decide([warrant]) == GuardDecision(False, "stale"))
    assert not _asked(service, "/v1/trust-bundle")


def test_the_command_takes_a_pin(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F732b: `status --trust-pin PIN` prints what a client with this pin holds."""
    monkeypatch.setenv("RESCIND_API_KEY", KEY)
    assert main(["status", service.url, "--tenant", TENANT, "--trust-pin", PIN]) == 0
    assert "sequence: 1\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["status", service.url, "--tenant", TENANT])
    assert "--trust-pin" in capsys.readouterr().err


# --- the saved state ---


def _save_state(service: Service, folder: Path) -> SavedState:
    with followed(service, FileStateStore(folder)) as (made, _):
        made.poll()
    saved = FileStateStore(folder).load()
    assert saved
    return saved


def test_processes_with_other_roots_do_not_share_a_folder(service: Service, tmp_path: Path) -> None:
    """TRUST-7, F734a: A process with another pin takes the folder over, and the older one stops.

    A process with the pin of the present roots is no other.
    """
    older = FileStateStore(tmp_path)
    saved = _save_state(service, tmp_path)
    older.save(saved)
    rotated = replace(saved.trust, held=service.vouch(by=202))
    older.save(replace(saved, trust=rotated))
    same = FileStateStore(tmp_path)
    same.load()
    same.save(replace(saved, sequence=2, trust=rotated.with_pin(roots.roots(202).pin)))
    older.save(replace(saved, sequence=3, trust=rotated))
    other = FileStateStore(tmp_path)
    other.load()
    foreign = TrustState(TENANT, roots.roots(1).pin, roots.first(1))
    other.save(replace(saved, sequence=1, trust=foreign))
    with pytest.raises(SavedStateCorrupt, match="another trust_pin"):
        older.save(replace(saved, sequence=9, trust=rotated))
    assert other.load() == replace(saved, sequence=1, trust=foreign)


def test_another_pin_begins_anew_with_the_saved_state_of_the_one_before(
    service: Service, tmp_path: Path
) -> None:
    """TRUST-7, F734b: After the loss of a root, a client with the new pin continues with its state.

    The position counts as long as the new document names the signer of the saved head.
    """
    _save_state(service, tmp_path)
    service.documents.clear()
    service.root = 205
    service.vouch(by=205)
    old = service.feed
    service.feed = Feed()
    service.sign()
    with followed(service, FileStateStore(tmp_path), roots.roots(205).pin) as (made, seen):
        assert made.view.state is None
        made.poll()
        assert seen[-1] == ResponseRejected("rollback")
        service.feed = old
        service.sign()
        made.poll()
        assert made.view.is_fresh()
    with followed(service, FileStateStore(tmp_path), roots.roots(205).pin) as (made, seen):
        assert made.view.is_fresh()
