"""The history of lists (SRL-22)."""

from contextlib import suppress
from typing import Any

import pytest

from shared.model.lists import content as model
from shared.model.lists.head import head_address
from shared.operations.changes import srl
from shared.operations.lists import in_force, publication
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.functions.signing import refusal
from tests.kit.api import Tenant
from tests.kit.faults import Crash, broken_at
from tests.kit.worlds import Clock

SRL = "/v1/revocations/srl"
PATH = f"{SRL}/versions"


def page(tenant: Tenant, query: str = "") -> dict[str, Any]:
    answer = tenant.read_only.get(f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def history(tenant: Tenant) -> list[dict[str, Any]]:
    return list(page(tenant)["versions"])


def publish(tenant: Tenant, path: str = "regenerate", **body: Any) -> None:
    assert tenant.admin.post(f"{SRL}/{path}", json=body).status_code in {200, 201}


def listed(tenant: Tenant, version: int) -> set[str]:
    payload = tenant.admin.get(f"{SRL}?version={version}").json()["payload"]
    assert payload["Version"] == version
    return set(payload["RevokedIDs"])


def test_each_list_has_an_entry(tenant: Tenant, ports: Ports, clock: Clock) -> None:
    """SRL-22, F438a: Each list has an entry, which the list itself confirms.

    It was published at the creation of the tenant, by an administrator, by the schedule, and with
    a new signer.
    """
    first = tenant.revoke("svc_wrt_a")
    tenant.revoke("svc_wrt_b")
    publish(tenant)
    tenant.admin.delete(f"/v1/revocations/{first}")
    tenant.revoke("svc_wrt_c")
    tenant.revoke("svc_wrt_d")
    clock.advance(seconds=60)
    assert publication.publish_if_due(ports, tenant.id)
    publish(tenant, "keys/rotate")
    tenant.revoke("svc_wrt_e")
    publish(tenant, "keys/rotate", compromised=True)
    entries = history(tenant)
    assert [each["version"] for each in entries] == [5, 4, 3, 2, 1]
    assert [(each["added_count"], each["removed_count"]) for each in entries] == [
        *((1, 0), (0, 0), (2, 1), (2, 0), (0, 0))
    ]
    for each in entries:
        answer = tenant.admin.get(f"{SRL}?sha256={each['sha256']}")
        payload = answer.json()["payload"]
        assert payload["Version"] == each["version"]
        assert payload["IssuedAt"] == each["issued_at"]
        assert payload["ExpiresAt"] == each["expires_at"]
        assert len(payload["RevokedIDs"]) == each["count"]
        assert answer.headers["X-SRL-Key-Id"] == each["key_id"]
        if each["version"] > 1:
            now, before = (listed(tenant, each["version"] - less) for less in (0, 1))
            assert (len(now - before), len(before - now)) == (
                each["added_count"],
                each["removed_count"],
            )


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_a_publisher_that_dies(tenant: Tenant, ports: Ports, late: bool) -> None:
    """SRL-22, F438b: A list has an entry if it was in force, wherever its publisher stops."""
    step, died = -1, True
    while died:
        step += 1
        tenant.revoke(f"svc_wrt_{step}")
        with suppress(Crash):
            srl.regenerate(broken_at(ports, step, Crash(), late=late), tenant.operator)
            died = False
        versions = [each["version"] for each in history(tenant)]
        assert versions == [*range(in_force.read_srl_head(ports, tenant.id).version, 0, -1)]
    assert step > 2


def test_pages_of_the_history(tenant: Tenant, other_tenant: Tenant) -> None:
    """SRL-22, F438c: The history is walked in pages, and is that of the caller's tenant."""
    for _ in range(4):
        publish(tenant)
    walked, cursor = [], ""
    while cursor is not None:
        found = page(tenant, f"?limit=2{cursor and '&cursor=' + cursor}")
        walked.append([each["version"] for each in found["versions"]])
        cursor = found["cursor"]
    assert walked == [[5, 4], [3, 2], [1]]
    assert [each["version"] for each in history(other_tenant)] == [1]
    taken = page(tenant, "?limit=1")["cursor"]
    foreign = other_tenant.admin.get(f"{PATH}?cursor={taken}")
    assert refusal(foreign) == (400, "invalid_request")
    elsewhere = tenant.admin.get(f"{SRL}/keys?cursor={taken}")
    assert refusal(elsewhere) == (400, "invalid_request")


def test_entries_expire(tenant: Tenant, ports: Ports, clock: Clock) -> None:
    """SRL-22, F438d: An entry is shown for 30 days, whether or not the store has removed it."""
    clock.advance(days=29)
    publish(tenant)
    assert [each["version"] for each in history(tenant)] == [2, 1]
    clock.advance(days=1)
    assert [each["version"] for each in history(tenant)] == [2]
    (row, _) = ports.store.query(model.versions(tenant.id))
    assert row.item["expires"] == int(clock().timestamp())


def test_a_restore_that_goes_back(tenant: Tenant, ports: Ports, clock: Clock) -> None:
    """SRL-22, F439a: After a restore, an entry that is there already stops no publication.

    A recovery skips versions, and its entry is compared with the list that was in force before.
    """
    before = in_force.read_srl_head(ports, tenant.id)
    tenant.revoke("svc_wrt_a")
    publish(tenant)
    ports.store.write(Put(head_address(tenant.id), before.to_item(), Expect.PRESENT))
    clock.advance(minutes=5)
    tenant.revoke("svc_wrt_b")
    publish(tenant)
    assert [(each["version"], each["count"]) for each in history(tenant)] == [(2, 2), (1, 0)]
    recovery.recover(ports, tenant.operator)
    recovered, *_ = history(tenant)
    assert recovered["version"] == in_force.read_srl_head(ports, tenant.id).version > 2
    assert (recovered["added_count"], recovered["removed_count"]) == (0, 0)


def test_a_list_that_cannot_be_compared(tenant: Tenant, ports: Ports) -> None:
    """SRL-22, F439b: If the list before is lost, what was added and removed is null, never zero."""
    tenant.revoke("svc_wrt_a")
    publish(tenant)
    ports.blobs.remove(in_force.read_srl_head(ports, tenant.id).blob)
    publish(tenant)
    publish(tenant)
    newest, compared, *_ = history(tenant)
    assert (compared["count"], compared["added_count"], compared["removed_count"]) == (
        1,
        None,
        None,
    )
    assert (newest["count"], newest["added_count"], newest["removed_count"]) == (1, 0, 0)
