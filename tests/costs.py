"""The calls of which docs/cost.md says what they cost, counted on the wire to a pretended account.

    python -m tests.costs        write tests/prices.csv and the tables of docs/cost.md anew

Of each call ten are made by ten keys of a tenant, a third of a second apart, by one instance:
what they share, such as the writes of the rate limit and of usage, is in the average.
"""

from __future__ import annotations

import csv
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from functions.authorizers.records import REPORTS_MAX
from functions.transparency_log import sealing
from functions.trust import trust_bundle
from functions.webhooks import dispatch
from shared import logs
from shared.adapters.aws import dynamodb, dynamodb_buckets, kms, s3
from shared.adapters.aws.dynamodb_buckets import DynamoUsage
from shared.authorizer.answers import parse_answer
from shared.authorizer.formats.wire import SignedHead
from shared.model.callers import Scope
from shared.operations.changes import revocations
from shared.operations.lists import publication, wake
from shared.operations.lists import schedule as srl_schedule
from shared.operations.lists.wake import WakeResult
from shared.ports import Ports
from tests import prices
from tests.kit import gates
from tests.kit.api import Client, Tenant, serve
from tests.kit.aws import aws
from tests.kit.calls import Recorder
from tests.kit.processes import ROOT
from tests.kit.worlds import Clock
from tests.prices import Counted, Prices

PAGE: Final = ROOT / "docs" / "cost.md"
_CALLS: Final = 10
_APART: Final = timedelta(seconds=0.3)
# The polls of a fleet come one upon another, so that they share the writes of the rate limit.
_CLOSE: Final = timedelta(milliseconds=5)
_REVOCATIONS: Final = "/v1/revocations"
_FEED: Final = "/v1/revocations/feed"
_STATUS: Final = "/v1/revocations/srl/status"
_VERSIONS: Final = "/v1/revocations/srl/versions"
# The identifiers in a batch, and in the list.
_BATCH: Final = 1000
_LISTED: Final = 20


@dataclass(frozen=True)
class Watched:
    """A tenant on AWS with a list and many callers, with all that it calls watched."""

    recorder: Recorder
    ports: Ports
    clock: Clock
    tenant: Tenant
    callers: list[Client]
    etag: str
    root_id: str


@contextmanager
def watched() -> Iterator[Watched]:
    """A pretended account with such a tenant."""
    with ExitStack() as stack:
        account = stack.enter_context(aws())
        tables = stack.enter_context(closing(dynamodb.connect()))
        counts = stack.enter_context(closing(dynamodb_buckets.connect()))
        objects = stack.enter_context(closing(s3.connect()))
        keys = stack.enter_context(closing(kms.connect()))
        recorder = Recorder(tables, counts, objects, keys)
        clock = Clock(datetime(2026, 11, 21, tzinfo=UTC))
        watched = replace(account, dynamodb=tables, s3=objects, kms=keys).ports(clock)
        ports = replace(
            watched,
            usage=DynamoUsage(counts, table_prefix=account.table_prefix),
            gather=recorder.gather,
        )
        yield _furnished(recorder, ports, clock)


def _furnished(recorder: Recorder, ports: Ports, clock: Clock) -> Watched:
    tenant = Tenant(ports, serve(ports), handle="acme")
    callers = [tenant.client(Scope.ADMIN) for _ in range(_CALLS)]
    for number in range(_LISTED):
        tenant.revoke(f"svc_wrt_01m7yz{number:020}")
    publication.publish_due(ports)
    etag = tenant.admin.get("/v1/revocations/srl").headers["ETag"]
    root = tenant.admin.post("/v1/keys", json={"name": "root", "type": "root"}).json()
    return Watched(recorder, ports, clock, tenant, callers, etag, root["id"])


def measured(here: Watched) -> Iterator[Counted]:
    """Every row, in the order of the page."""
    batch = {"warrant_ids": [f"svc_wrt_{number}" for number in range(_BATCH)]}
    known = {"If-None-Match": here.etag}
    same = {"If-None-Match": here.tenant.admin.get(_STATUS).headers["ETag"]}
    answer = here.tenant.admin.get(_FEED)
    polled = {"If-None-Match": answer.headers["ETag"]}
    last = SignedHead.decode(parse_answer(answer.content).payload).sequence
    sign = f"/v1/keys/{here.root_id}/sign"
    ids = iter(range(10_000))
    calls: dict[tuple[str, str], Callable[[Client], Any]] = {
        ("GET /v1/revocations/check", "Revocations"): (
            lambda client: client.get("/v1/revocations/check?warrant_id=svc_wrt_none")
        ),
        ("POST /v1/revocations/check-batch (of 1,000)", "Revocations"): (
            lambda client: client.post("/v1/revocations/check-batch", json=batch)
        ),
        (prices.POLL, "Srl"): lambda client: client.get("/v1/revocations/srl", headers=known),
        ("GET /v1/revocations/srl", "Srl"): lambda client: client.get("/v1/revocations/srl"),
        (f"GET {_STATUS} (304)", "Srl"): lambda client: client.get(_STATUS, headers=same),
        (f"GET {_VERSIONS}", "Srl"): lambda client: client.get(_VERSIONS),
        (f"GET {_FEED} (304)", "Feed"): lambda client: client.get(_FEED, headers=polled),
        (f"GET {_FEED} (an entry)", "Feed"): lambda client: client.get(f"{_FEED}?after={last - 1}"),
        ("GET /v1/revocations", "Revocations"): lambda client: client.get("/v1/revocations"),
        ("POST /v1/keys/{keyId}/sign", "SigningKeys"): (
            lambda client: client.post(sign, json={"payload": "aGVsbG8="})
        ),
        ("POST /v1/revocations", "Revocations"): (
            lambda client: client.post(
                "/v1/revocations", json={"warrant_id": f"svc_wrt_{next(ids)}", "reason": "stolen"}
            )
        ),
    }
    for (what, function), call in calls.items():
        yield _average(here, what, function, call)
    publication.publish_due(here.ports)
    yield _average(
        here, prices.TICK, "SrlSchedule", lambda _: srl_schedule.read_due_tenants(here.ports)
    )
    yield _average(here, prices.HOOKS, "WebhookDelivery", lambda _: dispatch.due(here.ports))
    yield _average(here, prices.PUBLICATION, "SrlPublication", lambda _: _publish(here))
    yield _average(here, prices.ENTRY, "FeedPublication", lambda _: _publish_entry(here, next(ids)))
    here.clock.moment += timedelta(seconds=1)
    yield _average(here, prices.LOOK, "FeedPublication", lambda _: _look_in_vain(here))
    with here.recorder.pausing():
        sealing.extend(here.ports, here.tenant.id)
    yield _average(here, prices.PASS, "AuditLogSealing", lambda _: _seal_entry(here, next(ids)))
    bundle, confirmed = "/v1/trust-bundle", _confirmed(here)
    sent = {f"GET {bundle} (304)": confirmed, f"GET {bundle}": {}}
    for what, headers in sent.items():
        poll = partial(Client.get, path=bundle, headers=headers)
        yield _average(here, what, "SigningKeys", poll)
    yield from _fleet(here)
    # After the publications, whose costs depend on how much is revoked.
    yield _average(
        here, f"POST {_REVOCATIONS} (with an Idempotency-Key)", "Revocations", _revoke_once
    )


def _revoke_once(client: Client) -> Any:
    body = {"warrant_id": f"svc_wrt_{client.key_id}", "reason": "stolen"}
    return client.post(_REVOCATIONS, json=body, headers={"Idempotency-Key": "once"})


def _fleet(here: Watched) -> Iterator[Counted]:
    """What authorizers send, of which each caller is one, and a relay for a hundred."""
    path, polled = "/v1/authorizers", here.tenant.admin.get(_FEED)
    head = SignedHead.decode(parse_answer(polled.content).payload)
    ids = dict[str, str]()

    def register(client: Client, name: str = "edge") -> Any:
        body = gates.registration(here.tenant.id, name, here.clock.moment)
        answer = client.post(f"{path}/register", json=body)
        ids[client.key_id] = answer.json()["id"]
        return answer

    def held(authorizer_id: str, **more: Any) -> dict[str, str]:
        of = here.tenant.ports, here.tenant.id, authorizer_id
        return gates.report(*of, sequence=head.sequence, chain=head.chain.hex(), **more)

    def beat(client: Client, **more: Any) -> Any:
        own = ids[client.key_id]
        return client.post(f"{path}/{own}/heartbeat", json=held(own, **more))

    yield _average(here, f"POST {path}/register", "Authorizers", register)
    # The first heartbeat of a day counts the authorizers.
    beat(here.callers[0])
    stored, idle = (f"POST {path}/{{id}}/heartbeat{more}" for more in ("", " (nothing new)"))
    yield _average(here, stored, "Authorizers", partial(beat, max_staleness=30))
    yield _average(here, idle, "Authorizers", partial(beat, max_staleness=30))
    relay, policy = here.tenant.client(Scope.ADMIN), iter(range(1, 100))
    each = [register(relay, f"edge-{number}").json()["id"] for number in range(REPORTS_MAX)]

    def report(_client: Client) -> Any:
        now = next(policy)
        reports = [{"id": one, **held(one, max_staleness=now)} for one in each]
        return relay.post(f"{path}/reports", json={"relay": "r", "reports": reports})

    report(relay)
    yield _average(here, f"POST {path}/reports (of 100)", "Authorizers", report)
    here.clock.moment += timedelta(seconds=1)
    known = {"If-None-Match": polled.headers["ETag"]}
    poll = partial(Client.get, path=_FEED, headers=known)
    for _ in range(20):
        # Until the instance takes as many tokens at a time as the polls need.
        poll(here.tenant.admin)
        here.clock.moment += _CLOSE
    yield _average(here, prices.NOTHING_NEW, "Feed", poll, apart=_CLOSE)


def _confirmed(here: Watched) -> dict[str, str]:
    """The header of a poll that is answered with 304, until the tenant's keys change."""
    etag = here.tenant.admin.get("/v1/trust-bundle").headers["ETag"]
    here.clock.moment += trust_bundle.SETTLED_AFTER
    later = here.tenant.admin.get("/v1/trust-bundle", headers={"If-None-Match": etag})
    return {"If-None-Match": later.headers["ETag"]}


def _publish(here: Watched) -> None:
    """The tenant's list after half of its lifetime, as it is made when nothing changes."""
    here.clock.moment += timedelta(seconds=1800)
    assert publication.publish_if_due(here.ports, here.tenant.id)


def _publish_entry(here: Watched, number: int) -> None:
    """The entry of one change; the change itself is not counted."""
    with here.recorder.pausing():
        here.clock.moment += timedelta(seconds=1)
        warrant_id = f"svc_wrt_entry_{number}"
        revocations.create(here.ports, here.tenant.operator, warrant_id=warrant_id, reason="stolen")
    assert wake.publish_within_window(here.ports, here.tenant.id).entries == 1


def _seal_entry(here: Watched, number: int) -> None:
    """The pass after one change, two minutes after the last; the change itself is not counted."""
    with here.recorder.pausing():
        here.clock.moment += timedelta(minutes=2)
        warrant_id = f"svc_wrt_sealed_{number}"
        revocations.create(here.ports, here.tenant.operator, warrant_id=warrant_id, reason="stolen")
    extended = sealing.extend(here.ports, here.tenant.id)
    assert extended.size == extended.first + 1


def _look_in_vain(here: Watched) -> None:
    """A wake-up by a mark that was only seen, after which the function looks twice."""
    assert wake.publish_within_window(here.ports, here.tenant.id) == WakeResult()


def _average(
    here: Watched,
    what: str,
    function: str,
    call: Callable[[Client], Any],
    *,
    apart: timedelta = _APART,
) -> Counted:
    answered = 0
    with here.recorder.counting() as calls, _logged(prices.GATHERED.get(function, 1)) as lines:
        for client in here.callers:
            here.clock.moment += apart
            answer = call(client)
            if hasattr(answer, "status_code"):
                assert answer.status_code in {200, 201, 304}, answer.text
                # An answer without a body is metered as one, too.
                answered += max(1, len(answer.content))
    return Counted(
        what,
        function,
        requests=len(calls.requests) / _CALLS,
        read_units=calls.read_units / _CALLS,
        write_units=calls.write_units / _CALLS,
        kms=calls.count("kms.") / _CALLS,
        s3_gets=calls.count("s3.GetObject") / _CALLS,
        s3_puts=calls.count("s3.PutObject") / _CALLS,
        # A line says how long its request took, in more or fewer digits.
        log_bytes=round(sum(map(len, lines)) / _CALLS, -1),
        answer_bytes=answered // _CALLS,
    )


@contextmanager
def _logged(size: int) -> Iterator[list[str]]:
    """What a function logs meanwhile, of which each line is for `size` requests: its share."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found = logs.logged_fields(record)
            gathered = [found.metrics.get("RequestSeconds", 0.0)] * size
            vars(record).update(
                rescind_fields=found._replace(gathered={"RequestSeconds": gathered})
            )
            line = logs.JsonFormatter(stage="prod").format(record)
            lines.append(line[: -(-len(line) // size)])

    handler, logger = Kept(), logging.getLogger("shared")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def main() -> int:
    """Count anew, and write what was counted."""
    with watched() as here, prices.COUNTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(each.name for each in fields(Counted))
        for row in measured(here):
            writer.writerow(getattr(row, each.name) for each in fields(Counted))
    text = PAGE.read_text()
    for table in prices.tables(Prices()):
        head = table.partition("\n")[0]
        # No table has a backslash, which would be read as a reference to a group.
        text = re.sub(rf"{re.escape(head)}\n(\|.*\n)+", f"{table}\n", text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
