"""The console's audit page: search, export, and the check of the sealed log."""

import csv
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Page, expect

from functions.transparency_log import sealing
from shared.model import times
from shared.model.audit.witness_policy import NoteKey
from shared.model.items import Table, Value
from shared.ports.store import Expect, Put
from tests.functions.console.plans import MARKUP
from tests.functions.console.served import World
from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

_DAY = timedelta(days=1)


def _check(console: Console, key: str) -> str:
    page = console.page
    page.get_by_role("button", name="Verify log").click()
    page.get_by_label("Pin or verifier key").fill(key)
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    banner = page.locator("main .banner")
    expect(banner).to_be_visible()
    return banner.inner_text()


def test_people_have_names(console: Console) -> None:
    """F596b: The audit page names the API key of each change, with a link to it."""
    page, world = console.page, console.world
    made = world.post("api-keys", name="anna.lindqvist", scopes=["revoker"])
    world.seed.secrets["anna"] = made["key"]
    revoked = world.post("revocations", "anna", warrant_id="svc_wrt_anna", reason="lost")
    console.open("#/audit")
    page.get_by_role("button", name="revoked the warrant svc_wrt_anna").click()
    expect(page.get_by_role("link", name="anna.lindqvist")).to_be_visible()
    console.open("#/revocations")
    expect(page.get_by_role("link", name="anna.lindqvist")).to_be_visible()
    expect(page.get_by_role("row", name="order-0113")).to_contain_text("fraud-desk (desk)")
    console.open(f"#/changes/{revoked['id']}")
    page.get_by_role("link", name="anna.lindqvist").first.click()
    console.wait("api-keys")
    assert page.url.endswith(f"#/api-keys/{made['id']}")


def test_the_log_is_read_searched_and_exported(console: Console) -> None:
    """F479b: Entries are sentences by day; filters are in the address; exports are complete."""
    page, world = console.page, console.world
    console.open("#/audit")
    expect(page.get_by_text("of the last 7 days")).to_be_visible()
    console.check_looks("audit")
    warrant = world.get("revocations?limit=1")["revocations"][0]["warrant_id"]
    search = page.get_by_role("searchbox")
    search.fill(f"warrant:{warrant}")
    expect(page.get_by_text("1 row")).to_be_visible()
    expect(page.get_by_text("of all time")).to_be_visible()
    page.get_by_role("button", name=f"revoked the warrant {warrant}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("revocation.create", exact=True)).to_be_visible()
    console.check_axe()
    dialog.get_by_role("button", name="Close").click()
    lines = [json.loads(line) for line in _file(page, "NDJSON").splitlines()]
    assert [line["entry"]["details"]["warrant_id"] for line in lines[:-1]] == [warrant]
    assert list(lines[-1]) == ["checkpoint"]
    oldest = world.get("revocations?limit=100&to=2026-11-10T00:00:00Z")["revocations"]
    console.open(f"#/audit?warrant={oldest[-1]['warrant_id']}")
    expect(page.get_by_text("of all time")).to_be_visible()
    expect(page.get_by_text(f"revoked the warrant {oldest[-1]['warrant_id']}")).to_be_visible()
    console.open("#/audit?action=key.revoke&from=2026-11-01")
    rows = list(csv.DictReader(_file(page, "CSV").splitlines()))
    assert MARKUP in [json.loads(row["details"])["reason"] for row in rows]
    console.open("#/audit?actor=nobody@acme.svc")
    expect(page.get_by_text("No entries match the filter.")).to_be_visible()


def test_words_and_times_of_day_find_entries(console: Console) -> None:
    """F1471a: The service looks for words in all that an entry says, between two minutes."""
    page = console.page
    console.open("#/audit?from=2026-11-21T10:00&to=2026-11-21T11:05")
    expect(
        page.get_by_text("since 2026-11-21 10:00 UTC, until 2026-11-21 11:05 UTC")
    ).to_be_visible()
    page.get_by_role("searchbox").press("End")
    page.get_by_role("searchbox").type(" DESK Closed")
    expect(page.locator(".lines .row")).to_have_count(1)
    expect(page.get_by_role("button", name="revoked the signing key")).to_be_visible()
    lines = _file(page, "NDJSON").splitlines()
    assert [json.loads(each)["entry"]["action"] for each in lines[:-1]] == ["key.revoke"]


def _file(page: Page, kind: str) -> str:
    """The file of all that the filter finds."""
    page.get_by_role("button", name="Download CSV").click()
    with page.expect_download() as kept:
        page.get_by_role("menuitem", name=f"as {kind}").first.click()
    return Path(kept.value.path()).read_text()


def test_a_batch_is_one_sentence(console: Console) -> None:
    """F479d: All calls of a batch are one sentence, and its export has the window of the page."""
    page, world = console.page, console.world
    batch = None
    for call in range(3):
        names = [f"svc_wrt_folded-{call}-{number:03}" for number in range(150)]
        body: dict[str, Any] = {"action": "revoke", "warrant_ids": names, "reason": "recalled"}
        answer = world.post("revocations/batch", **body, **({"batch_id": batch} if batch else {}))
        batch = answer["batch_id"]
    console.open("#/audit")
    sentence = page.get_by_role("button", name="revoked 450 warrants")
    expect(sentence).to_have_count(1)
    expect(page.get_by_text("a request of the batch")).to_have_count(0)
    sentence.click()
    expect(page.get_by_text("revocation.batch", exact=True)).not_to_have_count(0)
    console.check_looks("audit-batch")
    page.get_by_role("button", name="Close").click()
    rows = list(csv.DictReader(_file(page, "CSV").splitlines()))
    newest, oldest = (times.parse(rows[each]["timestamp"]) for each in (-1, 0))
    assert newest - oldest <= timedelta(days=7)
    expect(page.get_by_text("It contains the entries of the last 7 days.")).to_be_visible()


def test_the_sealed_log_is_checked_in_the_browser(console: Console) -> None:
    """F479c: The browser finds the log whole with the right key, and names a changed entry."""
    world = console.world
    sealing.sweep(world.ports, world.seed.tenant_id)
    (signer,) = world.get("audit-logs/keys")["keys"]
    key = NoteKey.parse(signer["verifier_key"])
    console.open("#/audit")
    for none in ("a key", signer["verifier_key"][:-8] + "AAAAAAAA", f"{key._replace(name='x')}"):
        assert _check(console, none).startswith("Nothing was checked.")
    assert _check(console, signer["verifier_key"]).startswith("The log is intact")
    assert "No trusted key signed" in _check(console, f"{key._replace(public_key=b'k' * 32)}")
    changed = world.get("audit-logs?action=key.revoke")["audit_logs"][0]["id"]
    _change_reason(world, changed)
    said = _check(console, signer["verifier_key"])
    assert said.startswith("The log is not intact"), said
    assert f"Entry {changed} was changed" in said


def test_the_sealed_log_is_checked_with_the_pin(console: Console) -> None:
    """TRUST-12, F881d: With the pin the browser needs no other key, and notices a rewritten log.

    The log has to go on from the checkpoint that the trust document names.
    """
    world = console.world
    sealing.sweep(world.ports, world.seed.tenant_id)
    held = world.trusted().document
    assert held.log is not None
    console.open("#/audit")
    assert _check(console, held.roots.pin).startswith("The log is intact")
    said = _check(console, "0" * 64)
    assert said.startswith("The trust document was rejected. Too few of the root keys"), said
    later, named = replace(held, version=held.version + 1), held.keys_for_use("log")
    for made, wrong in (
        (replace(later, log=held.log._replace(root=b"r" * 32)), "it was rewritten"),
        (replace(later, log=held.log._replace(size=10**6)), "it was truncated"),
        (
            replace(later, signers=tuple(x for x in held.signers if x.key not in named)),
            "No trusted key signed",
        ),
        (replace(later, issued_at=world.clock() - 2 * _DAY, expires_at=world.clock()), "expired"),
    ):
        console.answer("**/v1/trust?*", world.signed(made))
        assert wrong in _check(console, held.roots.pin)


def _change_reason(world: World, entry_id: str) -> None:
    """Alter an entry in the store, as whoever holds the disk can."""
    ((address, item),) = [
        each for each in world.ports.store.everything(Table.AUDIT) if entry_id in each[0].sk
    ]
    details = {**cast("dict[str, Value]", item["details"]), "reason": "nothing to see"}
    world.ports.store.write(Put(address, {**item, "details": details}, Expect.ANYTHING))
