"""The search for secrets finds each kind of them, in each form, at each door."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from shared import logs
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.local.filesystem import FileBlobs
from shared.errors import DataCorrupt, InvalidApiKey
from shared.model import api_keys, seeds
from shared.model.items import Address, Table
from shared.model.lists.signers import SrlSigner, SrlSignerStatus
from shared.ports import Ports
from shared.ports.store import Expect, Put
from shared.web import gate
from tests.kit.api import Tenant
from tests.kit.worlds import Clock
from tests.leaks import WATCH, Watch

SEED = bytes(range(0x7F, 0x9F))
SECRET = "svc_" + base64.urlsafe_b64encode(bytes(range(200, 232))).decode().rstrip("=")

FORMS: dict[str, Callable[[bytes], object]] = {
    "raw": lambda secret: secret,
    "raw among others": lambda secret: b"\x00" + secret + b"\xff",
    "hex": bytes.hex,
    "upper-case hex": lambda secret: secret.hex().upper(),
    "base64": base64.b64encode,
    "base64 for addresses": base64.urlsafe_b64encode,
    "base64, one byte on": lambda secret: base64.b64encode(b"x" + secret),
    "base64, two bytes on": lambda secret: base64.b64encode(b"xy" + secret + b"z"),
    "repr": repr,
    "repr in a text": lambda secret: f"the seed {secret!r} is bad",
    "repr of a repr": lambda secret: repr([repr(secret)]),
    "repr in JSON": lambda secret: json.dumps({"seed": repr(secret)}),
    "inside": lambda secret: {"a": [1, None, ("b", {"c": secret})]},
}


def found(note: Callable[[Watch], None], shown: object, *, stored: bool = False) -> bool:
    watch = Watch()
    note(watch)
    watch.search("here", shown, stored=stored)
    return bool(watch.leaks)


@pytest.mark.parametrize("form", FORMS)
def test_a_seed_is_found_in_every_form(form: str) -> None:
    """F17: however it was written down."""
    assert found(lambda watch: watch.note("a seed", SEED), FORMS[form](SEED))
    assert not found(lambda watch: watch.note("a seed", bytes(32)), FORMS[form](SEED))


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        f"Bearer {SECRET}, and more",
        f"x{SECRET}x",
        SECRET.removeprefix("svc_"),
        SECRET.encode(),
        base64.b64encode(b"user:" + SECRET.encode()),
        SECRET.encode().hex(),
        {"name": [SECRET]},
        {SECRET: 1},
    ],
)
def test_a_key_string_is_found_in_every_form(shown: object) -> None:
    """F17, S7: The search that guards all tests finds a secret in every form."""
    assert found(lambda watch: watch.note("an API key", SECRET), shown)


@pytest.mark.parametrize(
    "shown", [api_keys.digest(SECRET), SECRET[:20], "svc_", {"a": 1}, b"", None]
)
def test_what_reveals_nothing_is_no_find(shown: object) -> None:
    """A digest, and the beginning of a key."""
    assert not found(lambda watch: watch.note("an API key", SECRET), shown)


def test_a_seal_may_be_stored_and_nothing_else() -> None:
    """What is sealed is for the store."""
    sealed = b"\x01" + bytes(range(120, 180))
    assert found(lambda watch: watch.note_sealed("a seal", sealed), sealed)
    assert not found(lambda watch: watch.note_sealed("a seal", sealed), sealed, stored=True)


def test_a_find_says_where_and_not_what() -> None:
    """The report of a leak is none."""
    watch = Watch()
    watch.note("an API key", SECRET)
    watch.search("a log", SECRET)
    (leak,) = watch.leaks
    assert leak.startswith("an API key in a log, ")
    assert "test_a_find_says_where_and_not_what" in leak
    assert SECRET not in leak


# --- the doors of this very run ---


def born(folder: Path) -> list[str]:
    """A fresh secret of each kind, as texts."""
    seed, _ = seeds.new()
    FileSealer.create(folder / "master.key")
    master = (folder / "master.key").read_bytes()
    return [api_keys.new_secret(), seed.hex(), master.hex()]


@pytest.mark.parametrize("number", range(3))
def test_every_kind_is_noted_at_its_birth(tmp_path: Path, number: int) -> None:
    """A key string, a seed and a master key, by whatever part of the service makes them."""
    secret = born(tmp_path)[number]
    with WATCH.expecting() as leaks:
        WATCH.search("here", secret)
    assert len(leaks) == 1


def _log(secret: str) -> None:
    logging.getLogger("shared.some").info("a key: %s", secret)


def _log_field(secret: str) -> None:
    logging.getLogger("shared.some").info("a key", extra=logs.fields(key=secret))


def _log_error(secret: str) -> None:
    try:
        raise KeyError(secret)
    except KeyError:
        logging.getLogger("shared.some").exception("failed")


def _report(secret: str) -> None:
    error = RuntimeError("failed")
    error.__cause__ = KeyError(secret)
    gate.report(error, "request")


@pytest.mark.parametrize("leak", [_log, _log_field, _log_error, _report, DataCorrupt])
def test_logs_and_errors_are_searched(leak: Callable[[str], object]) -> None:
    """A message, a field, an error in the log, a cause, an error of ours."""
    with WATCH.expecting() as leaks:
        leak(api_keys.new_secret())
    assert leaks


def test_stored_items_are_searched(ports: Ports) -> None:
    """Whatever is written to the store, audit entries among it."""
    seed, _ = seeds.new()
    with WATCH.expecting() as leaks:
        ports.store.write(Put(Address(Table.AUDIT, "a"), {"details": {"a": seed}}, Expect.ABSENT))
    assert len(leaks) == 1


def test_blobs_are_searched(tmp_path: Path) -> None:
    """Whatever is put among the blobs."""
    with WATCH.expecting() as leaks:
        FileBlobs(tmp_path).put("a", api_keys.new_secret().encode())
    assert len(leaks) == 1


def test_reprs_are_searched(clock: Clock) -> None:
    """A record that shows the seal of its seed, as one of an operation's results would."""
    sealed = b"\x01" * 61
    WATCH.note_sealed("a seal", sealed)
    with WATCH.expecting() as leaks:
        SrlSigner("svc_key_a", "t", f"{sealed!r}", SrlSignerStatus.ACTIVE, clock(), sealed)
    assert len(leaks) == 1


def test_answers_are_searched(tenant: Tenant) -> None:
    """A key may be in the one answer that makes it, and in no other."""
    body = {"name": "k", "scopes": ["admin"]}
    with WATCH.expecting() as leaks:
        made = tenant.admin.post("/v1/api-keys", json=body).json()
    assert not leaks
    with WATCH.expecting() as leaks:
        tenant.admin.post("/v1/api-keys", json=body | {"name": made["key"]})
    assert any("an answer" in leak for leak in leaks)


def test_a_refused_key_is_not_repeated(tenant: Tenant) -> None:
    """F16, F17: nothing of what was tried is in an answer, an error or a log."""
    secret = api_keys.new_secret()
    with WATCH.expecting() as leaks:
        answer = tenant.holding(secret).get(f"/v1/keys/{secret}")
        str(InvalidApiKey())
    assert answer.status_code == 401
    assert not leaks
