"""Many callers who write down what they were told, while the service dies around them.

    with Crowd(url, secret).working() as crowd:
        …  # kill what serves them
    crowd.check(ports)

A write whose answer was lost may have happened or not; its subject is set aside. Whatever was
answered is held to: none of it may be lost, and no answer may be wrong meanwhile.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count
from typing import Any, Final

import httpx2

from shared.model.audit.audit_log import AuditAction, month
from shared.model.lists import signers as srl_signers
from shared.model.lists.head import SrlHead, heads_partition
from shared.model.lists.verification import verify
from shared.operations.lists import in_force
from shared.operations.operator import onboarding
from shared.ports import Ports
from tests.infra.published import published_versions
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon

HANDLE: Final = "local"
# Between two publications, or two looks: writers are to have most of the machine.
PAUSE_SECONDS: Final = 0.1
_BATCH: Final = 1000


class Lost(Exception):
    """No answer came, or 503: it may have happened or not."""


# How many lists before the one in force are kept at least.
_KEPT: Final = 20


@dataclass(frozen=True)
class Publication:
    """A version, and how much was acknowledged before its publication began."""

    version: int
    kept: int
    lifted: int


@dataclass
class Crowd:
    """Callers of one service at `url`, with the admin key `secret`, and what they were told."""

    url: str
    secret: str
    # Subjects in the order of their acknowledgement; nothing leaves these lists.
    kept: list[str] = field(default_factory=list)
    lifted: list[str] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    # Each is added to by one line, which a thread does without another between.
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _tasks: list[Future[None]] = field(default_factory=list)

    @contextmanager
    def working(self, *, writers: int = 5) -> Iterator["Crowd"]:
        """Everyone at work, until the end; then whatever one of them saw go wrong is raised."""
        with ThreadPoolExecutor(writers + 2) as pool:
            try:
                self._tasks = [
                    pool.submit(self._work, self._write, f"w{number}") for number in range(writers)
                ]
                self._tasks.append(pool.submit(self._work, self._publish, "publisher"))
                self._tasks.append(pool.submit(self._work, self._look, "reader"))
                yield self
            finally:
                self._stopped.set()
        for task in self._tasks:
            task.result()

    def wait_for(self, many: int, count_of: Callable[["Crowd"], list[str]]) -> None:
        """Wait until so many more are in the list, while nobody gives up and each comes in time."""
        for wanted in range(len(count_of(self)) + 1, len(count_of(self)) + many + 1):
            soon(lambda wanted=wanted: self._has(wanted, count_of))  # type: ignore[misc]

    def _has(self, wanted: int, count_of: Callable[["Crowd"], list[str]]) -> bool:
        for task in self._tasks:
            assert not task.done(), f"a caller gave up: {task.exception()!r}"
        return len(count_of(self)) >= wanted

    def figures(self) -> str:
        """What was done, in a line."""
        return (
            f"{len(self.acknowledged)} writes acknowledged, {len(self.unknown)} unknown, "
            f"{len(self.refused)} refused with 503, {len(self.publications)} publications by HTTP, "
            f"{len(self.looks)} looks"
        )

    def _work(self, step: Callable[[httpx2.Client, str], None], name: str) -> None:
        # A connection a request, so that any worker may get it.
        with httpx2.Client(headers={"Connection": "close"}, timeout=30) as http:
            for number in count():
                if self._stopped.is_set():
                    return
                try:
                    step(http, f"{name}-{number}")
                except Lost:
                    self.unknown.append(f"{name}-{number}")

    def _write(self, http: httpx2.Client, subject: str) -> None:
        """Revoke a warrant that stays so, one that does not, and make keys likewise."""
        kind = random.choices(["keep", "lift", "key", "delete"], weights=[4, 2, 1, 1])[0]
        if kind in {"keep", "lift"}:
            record = self._revoke(http, subject)
            if kind == "lift":
                self._remove(http, f"/v1/revocations/{record}")
                self.lifted.append(subject)
            else:
                self.kept.append(subject)
            return
        key = self._create_key(http, subject)
        if kind == "delete":
            self._remove(http, f"/v1/api-keys/{key[0]}")
            self.deleted.append(key)
        else:
            self.keys.append(key)

    def _revoke(self, http: httpx2.Client, subject: str) -> str:
        body = {"warrant_id": _warrant(subject), "reason": "stolen"}
        answer = self._answered(http, "POST", "/v1/revocations", {201}, json=body)
        return str(answer.json()["id"])

    def _remove(self, http: httpx2.Client, path: str) -> None:
        self._answered(http, "DELETE", path, {204})

    def _create_key(self, http: httpx2.Client, subject: str) -> tuple[str, str]:
        body = {"name": subject, "scopes": ["authorizer"]}
        made = self._answered(http, "POST", "/v1/api-keys", {201}, json=body).json()
        return made["id"], made["key"]

    def _publish(self, http: httpx2.Client, _subject: str) -> None:
        kept, lifted = len(self.kept), len(self.lifted)
        path = "/v1/revocations/srl/regenerate"
        version = self._ask(http, "POST", path, {200}).json()["version"]
        self.publications.append(Publication(version, kept, lifted))
        time.sleep(PAUSE_SECONDS)

    def _look(self, http: httpx2.Client, subject: str) -> None:
        """Nobody is told anything wrong: not of a warrant, nor of a key."""
        kept, lifted = _some(self.kept), _some(self.lifted)
        if kept or lifted:
            verdicts = self._verdicts(http, [*kept, *lifted])
            assert all(verdicts[each] for each in kept)
            assert not any(verdicts[each] for each in lifted)
        path = "/v1/revocations/check?warrant_id=svc_wrt_none"
        for _, secret in [("admin", self.secret), *_some(self.keys)][:2]:
            self._ask(http, "GET", path, {200}, secret=secret)
        for _, secret in _some(self.deleted)[:1]:
            self._ask(http, "GET", path, {401}, secret=secret)
        self.looks.append(subject)
        time.sleep(PAUSE_SECONDS)

    def _verdicts(self, http: httpx2.Client, subjects: list[str]) -> dict[str, bool]:
        body = {"warrant_ids": [_warrant(each) for each in subjects]}
        answer = self._ask(http, "POST", "/v1/revocations/check-batch", {200}, json=body)
        results = answer.json()["results"]
        return {each: results[_warrant(each)]["revoked"] for each in subjects}

    def _answered(self, http: httpx2.Client, *request: Any, **options: Any) -> httpx2.Response:
        answer = self._ask(http, *request, **options)
        self.acknowledged.append(request[0])
        return answer

    def _ask(
        self,
        http: httpx2.Client,
        method: str,
        path: str,
        expected: set[int],
        *,
        secret: str | None = None,
        **options: Any,
    ) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {secret or self.secret}"}
        try:
            answer = http.request(method, self.url + path, headers=headers, **options)
        except httpx2.ConnectError as error:
            # Nobody there who could have been asked.
            time.sleep(0.05)
            raise Lost from error
        except httpx2.TransportError as error:
            raise Lost from error
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            self.refused.append(path)
            raise Lost
        assert answer.status_code in expected, f"{method} {path}: {answer.text}"
        return answer

    # --- afterwards ---

    def check(self, ports: Ports) -> None:
        """Nothing acknowledged is lost, nothing is half done, whoever is asked."""
        operator = onboarding.operator(ports, handle=HANDLE)
        Tenant(operator.tenant_id, operator).check_totals(ports)
        with httpx2.Client(headers={"Connection": "close"}, timeout=60) as http:
            revoked = self._check_revocations(http)
            self._check_keys(http)
            self._check_publications(http, ports, operator.tenant_id, revoked)
        self._check_entries(ports, operator.tenant_id, len(revoked))

    def _check_revocations(self, http: httpx2.Client) -> set[str]:
        """The warrants that are revoked: those that were left so, and some whose end is unknown."""
        listed, total = self._walk(http, "/v1/revocations", "revocations")
        revoked = {record["warrant_id"] for record in listed}
        kept, lifted, unknown = (
            set(map(_warrant, each)) for each in (self.kept, self.lifted, self.unknown)
        )
        assert len(listed) == len(revoked) == total
        assert kept <= revoked <= kept | unknown
        subjects = [*self.kept, *self.lifted, *self.unknown]
        for start in range(0, len(subjects), _BATCH):
            verdicts = self._verdicts(http, subjects[start : start + _BATCH])
            assert {_warrant(each) for each, verdict in verdicts.items() if verdict} == {
                _warrant(each) for each in verdicts
            } & revoked
        assert not lifted & revoked
        return revoked

    def _check_keys(self, http: httpx2.Client) -> None:
        listed, total = self._walk(http, "/v1/api-keys", "api_keys")
        ids = {key["id"] for key in listed}
        assert len(listed) == len(ids) == total
        assert {key_id for key_id, _ in self.keys} <= ids
        assert not ids & {key_id for key_id, _ in self.deleted}
        others = {key["name"] for key in listed if key["id"] not in dict(self.keys)}
        assert others <= {"admin", *self.unknown}

    def _check_publications(
        self, http: httpx2.Client, ports: Ports, tenant_id: str, revoked: set[str]
    ) -> None:
        """Every version was published once; each list that is kept has what was acknowledged."""
        last = self._ask(http, "POST", "/v1/revocations/srl/regenerate", {200}).json()["version"]
        entries = ports.store.query(heads_partition(tenant_id))
        heads = [SrlHead.from_item(entry.item) for entry in entries if entry.sk != "head"]
        assert published_versions(ports, tenant_id) == list(range(2, last + 1))
        # On one machine, lists long before the one in force are removed.
        kept = [head for head in heads if head.version >= last - _KEPT]
        assert len(kept) == min(last, _KEPT + 1)
        lists = {head.version: self._verified(ports, tenant_id, head) for head in kept}
        assert lists[last] == revoked
        versions = [each.version for each in self.publications]
        assert versions == sorted(set(versions))
        for each in (each for each in self.publications if each.version in lists):
            assert set(map(_warrant, self.kept[: each.kept])) <= lists[each.version]
            assert not lists[each.version] & set(map(_warrant, self.lifted[: each.lifted]))

    def _verified(self, ports: Ports, tenant_id: str, head: SrlHead) -> set[str]:
        item = ports.store.get(srl_signers.signers_partition(tenant_id).address(head.key_id))
        assert item is not None
        key = srl_signers.SrlSigner.from_item(item).public_bytes
        payload = verify(in_force.read_srl_body(ports, head), public_key=key, now=head.issued_at)
        assert payload.version == head.version
        return set(payload.revoked_ids)

    def _check_entries(self, ports: Ports, tenant_id: str, revoked: int) -> None:
        """F25: as many changes as the audit log has entries of them."""
        partitions = month(tenant_id, datetime.now(UTC))
        entries = (entry for each in partitions for entry in ports.store.query(each))
        actions = Counter(entry.item["action"] for entry in entries)
        created, deleted = AuditAction.REVOCATION_CREATE.value, AuditAction.REVOCATION_DELETE.value
        assert actions[created] - actions[deleted] == revoked

    def _walk(self, http: httpx2.Client, path: str, name: str) -> tuple[list[Any], int]:
        listed: list[Any] = []
        cursor = ""
        while True:
            page = self._ask(http, "GET", f"{path}?limit=100{cursor}", {200}).json()
            listed += page[name]
            if page["cursor"] is None:
                return listed, page["total"]
            cursor = f"&cursor={page['cursor']}"


def _warrant(subject: str) -> str:
    return f"svc_wrt_{subject}"


def _some(subjects: list[Any]) -> list[Any]:
    """A few of them, the latest among them."""
    return [*random.sample(subjects, min(len(subjects), 20)), *subjects[-5:]]
