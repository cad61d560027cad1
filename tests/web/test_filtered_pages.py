"""Filtered pages: how much one reads, and that no entry is lost between two of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shared.model.callers import Scope
from shared.model.identities.sessions import SessionRecord
from shared.operations.identities import sessions
from shared.ports.store import Expect, Put
from tests.kit import identities
from tests.kit.api import Tenant
from tests.kit.intercepted import Call, Intercepted


def others(tenant: Tenant, like: SessionRecord, number: int) -> None:
    """Sessions that began later, and have ended: their owner is unknown."""
    made = [
        replace(like, id=tenant.ports.new_id("ses"), owner="svc_usr_other") for _ in range(number)
    ]
    for start in range(0, number, 100):
        part = made[start : start + 100]
        tenant.ports.store.write(
            *(Put(each.address, each.to_item(), Expect.ABSENT) for each in part)
        )


def test_a_filtered_page_reads_a_thousand(tenant: Tenant) -> None:
    """API-20, AUTH-14, F2240a: A page of sessions reads 1,000 sessions, and loses none.

    It is shorter than its limit then, and the cursor continues after the last that was read.
    """
    provider = identities.bound(tenant.ports, tenant.operator)
    own = [identities.signed_in(tenant.ports, provider) for _ in range(2)]
    others(tenant, own[0].session, 999)
    own.append(identities.signed_in(tenant.ports, provider))
    others(tenant, own[0].session, 1500)
    read: list[int] = []

    def counting(call: Call) -> Any:
        answer = call()
        if call.verb != "query" or not call.arguments[0].pk.endswith("#sessions"):
            return answer

        def counted(rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                read[-1] += 1
                yield row

        return counted(answer)

    ports = replace(tenant.ports, store=Intercepted(tenant.ports.store, counting))
    found: list[str] = []
    before: str | None = None
    while before is not None or not read:
        read.append(0)
        page, before = sessions.page(ports, tenant.operator, before=before, limit=50)
        found += [each.id for each in page]
    assert found == [each.session.id for each in reversed(own)]
    assert read == [1000, 1000, 502]


def test_own_sessions_are_found_by_their_owner(tenant: Tenant) -> None:
    """IDENTITY-5, F2241a: A person's own sessions are read by the person alone, and end alone."""
    provider = identities.bound(tenant.ports, tenant.operator)
    own = [identities.signed_in(tenant.ports, provider, Scope.SIGNER) for _ in range(3)]
    others(tenant, own[0].session, 1200)
    alice = tenant.holding(own[0].secret)
    page = alice.get("/v1/sessions").json()
    assert page["cursor"] is None
    assert [each["id"] for each in page["sessions"]] == [each.session.id for each in reversed(own)]
    assert alice.delete(f"/v1/sessions/{own[1].session.id}").status_code == 204
    left = alice.get("/v1/sessions").json()["sessions"]
    assert [each["id"] for each in left] == [own[2].session.id, own[0].session.id]
    bob = identities.signed_in(tenant.ports, provider, Scope.SIGNER, sub="bob")
    (shown,) = tenant.holding(bob.secret).get("/v1/sessions").json()["sessions"]
    assert shown["id"] == bob.session.id
