"""Print what the service costs on AWS: counted calls multiplied by prices.

    python -m tests.prices --read-unit 0.15 --milliseconds 20

The counts are in `prices.csv` beside this file; `python -m tests.costs` renews them. The default
prices are list prices of one region (us-east-1, arm64) on one day.
"""

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from functions.authorizers.records import RegistrationCounts

COUNTS: Final = Path(__file__).with_name("prices.csv")
# What is deployed: the memory of the functions in megabytes, and the other resources of a stage.
MEMORY: Final = {
    "AuditLogSealing": 512,
    "Authorizers": 512,
    "Feed": 512,
    "FeedPublication": 512,
    "Revocations": 512,
    "SigningKeys": 512,
    "Srl": 2048,
    "SrlSchedule": 256,
    "SrlPublication": 2048,
    "WebhookDelivery": 512,
}
SNAPSHOTS: Final = ("Revocations", "Feed")
# Lambda writes no lines of its own for these functions, and they write one for so many requests.
GATHERED: Final = {"Feed": 100}
# An alarm is billed by the metrics that it watches.
ALARM_METRICS: Final = 46
# The metrics of a stage without faults and requests: five of the schedule, two of publications,
# two of the sealing, one each of the feed and of the renewal of trust documents.
METRICS: Final = 11
# Lambda has five long polls of 20 seconds under way at each of two queues. A million requests to
# SQS are free.
_QUEUE_POLLS: Final = 2 * 5 * 3 * (30 * 24 * 60) - 1_000_000
# What the tables and the bucket ask of the key in a month, at most.
_KEY_REQUESTS: Final = 100_000
FLEETS: Final = (100, 1_000, 10_000)
# So many authorizers share a relay.
BEHIND_A_RELAY: Final = 500

POLL: Final = "GET /v1/revocations/srl (304)"
TICK: Final = "a tick of the schedule"
HOOKS: Final = "a tick of webhooks"
PUBLICATION: Final = "a publication"
ENTRY: Final = "an entry of the feed"
LOOK: Final = "a wake-up of the feed without a change"
PASS: Final = "a pass of the sealed log (an entry)"
NOTHING_NEW: Final = "GET /v1/revocations/feed (304, of a fleet)"
NEWS: Final = "GET /v1/revocations/feed (an entry)"
REPORT: Final = "POST /v1/authorizers/{id}/heartbeat"
EMPTY_REPORT: Final = f"{REPORT} (nothing new)"
BATCH: Final = "POST /v1/authorizers/reports (of 100)"

_FOLLOWING: Final = (
    "Following the feed",
    "A poll each",
    "Polls",
    "Reports",
    "$ a month",
    "Relays",
    "Their polls",
    "Reports through them",
    "$ a month with relays",
)

_MONTH: Final = 30 * 24 * 3600
_POLLS: Final = _MONTH // 30
# Without changes, a list is published at half of its lifetime, which is an hour.
_LISTS: Final = _MONTH // 1800
_TICKS: Final = _MONTH // 60
# A fleet that follows the feed: entries a month, the mean pause between two polls as a part of
# `poll_seconds`, that between two reports at rest as a part of `report_after_seconds`, and the
# seconds between two requests of a relay that has reports.
_NEWS: Final = 48 * 30
_POLL_PART: Final = 0.75
_REPORT_PART: Final = 1.125
BATCH_SECONDS: Final = 1.0
BATCH_MAX: Final = 100
# An entry in each window of half a second.
_ENTRIES: Final = 2 * _MONTH
# As many invocations as Lambda starts for the four shards of a new table's stream.
LANES: Final = 8
# An HTTP API bills each 512 KiB of a response as a request.
_METERED_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in dollars, and four values that only a deployment can measure.

    Prices are per million down to `snapshot_gigabyte_second`, then per gigabyte, then per month.
    `milliseconds` is the run time of a function for a request or a tick, `publication_milliseconds`
    for a publication, `feed_milliseconds` for a wake-up of the feed. `line_bytes` is what AWS logs
    of a request, without our own line, and `gateway_bytes` the part of it that API Gateway logs.
    """

    read_unit: float = 0.125
    write_unit: float = 0.625
    kms: float = 3.0
    s3_get: float = 0.4
    s3_put: float = 5.0
    gateway: float = 1.0
    invocation: float = 0.2
    gigabyte_second: float = 13.3334
    snapshot_gigabyte_second: float = 1.5046
    log_gigabyte: float = 0.5
    transfer_gigabyte: float = 0.09
    alarm_metric_month: float = 0.1
    metric_month: float = 0.3
    key_month: float = 1.0
    milliseconds: float = 30.0
    publication_milliseconds: float = 1000.0
    feed_milliseconds: float = 100.0
    line_bytes: float = 900.0
    gateway_bytes: float = 340.0
    queue: float = 0.4


@dataclass(frozen=True, slots=True)
class Counted:
    """What a call uses on average. `requests` are all its requests to DynamoDB, S3 and KMS."""

    what: str
    function: str
    requests: float
    read_units: float
    write_units: float
    kms: float
    s3_gets: float
    s3_puts: float
    log_bytes: float
    answer_bytes: float

    def dollars(self, prices: Prices) -> float:
        """Return the price of a million calls."""
        milliseconds = {
            PUBLICATION: prices.publication_milliseconds,
            ENTRY: prices.feed_milliseconds,
            LOOK: prices.feed_milliseconds,
            PASS: prices.feed_milliseconds,
        }.get(self.what, prices.milliseconds)
        gigabytes = MEMORY[self.function] / 1024
        own = self.function in GATHERED
        logged = self.log_bytes + (prices.gateway_bytes if own else prices.line_bytes)
        return (
            self.read_units * prices.read_unit
            + self.write_units * prices.write_unit
            + self.kms * prices.kms
            + self.s3_gets * prices.s3_get
            + self.s3_puts * prices.s3_put
            + math.ceil(self.answer_bytes / _METERED_BYTES) * prices.gateway
            + prices.invocation
            + milliseconds / 1000 * gigabytes * prices.gigabyte_second
            + logged / 1000 * prices.log_gigabyte
            + self.answer_bytes / 1000 * prices.transfer_gigabyte
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables for the given prices."""
    parser = argparse.ArgumentParser(prog="python -m tests.prices", description=__doc__)
    for price in fields(Prices):
        option = f"--{price.name.replace('_', '-')}"
        parser.add_argument(option, type=float, default=price.default, metavar="NUMBER")
    prices = Prices(**vars(parser.parse_args(arguments)))
    print(*tables(prices), sep="\n\n")
    return 0


def counted() -> list[Counted]:
    """Return the counts of `tests.costs`."""
    with COUNTS.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Counted(what, function, *map(float, averages)) for what, function, *averages in rows]


def tables(prices: Prices) -> list[str]:
    """Return tables in Markdown: calls, fleets, a tenant that always revokes, an idle stage.

    Fleets are those that read lists, and those that follow the feed, alone and behind relays.
    """
    figures = ("requests", "read_units", "write_units", "kms", "s3_gets", "s3_puts")
    calls = (
        [
            f"`{each.what}`",
            *(f"{getattr(each, name):g}" for name in figures),
            f"{each.dollars(prices):.2f}",
        ]
        for each in counted()
    )
    head = ["Call", "Requests", "Read units", "Write units", "KMS", "S3 GET", "S3 PUT"]
    fleets = ([f"{size:,}", f"{fleet(size, prices):,.0f}"] for size in FLEETS)
    following = (_following(size, prices) for size in FLEETS)
    busy = ([what, f"{dollars:.0f}"] for what, dollars in revoking(prices).items())
    parts = ([what, f"{dollars:.2f}"] for what, dollars in idle(prices).items())
    return [
        _table([*head, "$ a million"], calls),
        _table(["Authorizers", "$ a month"], fleets),
        _table(_FOLLOWING, following),
        _table(["Of a tenant that revokes all the time", "$ a month"], busy),
        _table(["Of an idle stage", "$ a month"], parts),
    ]


def fleet(size: int, prices: Prices) -> float:
    """Return the dollars per month for `size` authorizers of one tenant.

    Each has its own key, requests the list every 30 seconds, and downloads each new list once.
    """
    row = {each.what: each.dollars(prices) / 1_000_000 for each in counted()}
    fetch = row[POLL.removesuffix(" (304)")]
    return size * ((_POLLS - _LISTS) * row[POLL] + _LISTS * fetch)


def direct(size: int, prices: Prices) -> tuple[float, float]:
    """Return the dollars per month of polls and of reports, if `size` authorizers follow the feed.

    Each pauses as the service asks. There are `_NEWS` entries, which each fetches and reports.
    """
    row = {each.what: each.dollars(prices) / 1_000_000 for each in counted()}
    numbers = RegistrationCounts(count=size, polling=size)
    polls = _MONTH / (numbers.poll_seconds * _POLL_PART)
    reports = _MONTH / (numbers.report_after_seconds * _REPORT_PART) + _NEWS
    each = (polls - _NEWS) * row[NOTHING_NEW] + _NEWS * row[NEWS]
    return size * each, size * reports * row[REPORT]


def relayed(size: int, prices: Prices) -> tuple[float, float]:
    """Return the same for `size` authorizers behind relays, which poll each second.

    A relay sends the reports of a second together: at rest those of few authorizers, and for
    `jitter_seconds` after an entry those of many. Its host is not included.
    """
    row = {each.what: each.dollars(prices) / 1_000_000 for each in counted()}
    relays = math.ceil(size / BEHIND_A_RELAY)
    numbers = RegistrationCounts(count=size, polling=0)
    rest = 1 / (numbers.report_after_seconds * _REPORT_PART)
    # The part of all seconds in which at least one authorizer of a relay reports.
    busy = 1 - math.exp(-rest * size / relays * BATCH_SECONDS)
    batches = _MONTH / BATCH_SECONDS * busy + _NEWS * max(1, numbers.jitter_seconds)
    reports = size * (_MONTH * rest + _NEWS)
    each = (row[BATCH] - row[EMPTY_REPORT]) / BATCH_MAX
    polls = (_MONTH / _POLL_PART - _NEWS) * row[NOTHING_NEW] + _NEWS * row[NEWS]
    return relays * polls, relays * batches * row[EMPTY_REPORT] + reports * each


def revoking(prices: Prices) -> dict[str, float]:
    """Return the dollars per month that the feed costs if a tenant never stops to revoke.

    The requests themselves are not included. Invocations that wait for the end of a window do so at
    the same time for all tenants, so their number has a limit.
    """
    row = {each.what: each.dollars(prices) / 1_000_000 for each in counted()}
    gigabytes = LANES * MEMORY["FeedPublication"] / 1024
    return {
        "two entries a second": _ENTRIES * row[ENTRY],
        "waiting for the window, of all tenants, at most": (
            gigabytes * _MONTH * prices.gigabyte_second / 1_000_000
        ),
    }


def idle(prices: Prices) -> dict[str, float]:
    """Return the dollars per month of each part of a stage with one tenant and no requests."""
    row = {each.what: each.dollars(prices) / 1_000_000 for each in counted()}
    gigabytes = sum(MEMORY[name] for name in SNAPSHOTS) / 1024
    parts = {
        f"snapshots of {len(SNAPSHOTS)} functions, {gigabytes:g} GB": (
            gigabytes * _MONTH * prices.snapshot_gigabyte_second / 1_000_000
        ),
        "a tick each minute": _TICKS * row[TICK],
        "a tick of webhooks each minute": _TICKS * row[HOOKS],
        "48 publications a day": _LISTS * row[PUBLICATION],
        "polling of two queues": _QUEUE_POLLS * prices.queue / 1_000_000,
        "requests of tables and bucket to the key, at most": _KEY_REQUESTS * prices.kms / 1_000_000,
        f"{METRICS} metrics": METRICS * prices.metric_month,
        f"alarms on {ALARM_METRICS} metrics": ALARM_METRICS * prices.alarm_metric_month,
        "two keys in KMS": 2 * prices.key_month,
    }
    return parts | {"in all": sum(parts.values())}


def _following(size: int, prices: Prices) -> list[str]:
    numbers = RegistrationCounts(count=size, polling=size)
    alone, behind = direct(size, prices), relayed(size, prices)
    relays = math.ceil(size / BEHIND_A_RELAY)
    dollars = (*alone, sum(alone), *behind, sum(behind))
    return [
        f"{size:,}",
        f"{numbers.poll_seconds} s",
        *(f"{each:,.0f}" for each in dollars[:3]),
        f"{relays}",
        *(f"{each:,.0f}" for each in dollars[3:]),
    ]


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *lines])


if __name__ == "__main__":
    sys.exit(main())
