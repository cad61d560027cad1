"""Many warrants by calls of the API for 1000 at a time, under one batch (REVOKE-20).

A batch that was stopped is completed by the same command with `--batch`: nothing is changed twice.
"""

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final

from ulid import ULID

from infra.cli.commands import ApiSession
from infra.cli.errors import Exit, NoUsableAnswer, WrongUsage, given
from infra.cli.output import Column
from shared.model.identifiers import BATCH, REVOCATION, is_identifier, warrant_id

_PATH: Final = "/v1/revocations/batch"
_MOST: Final = 1000
# How often a call is repeated whose answer was lost, or in which something was unavailable.
_REPEATED: Final = 3
# More results than these are shown as counts only, with those that failed.
_SHOWN_MOST: Final = 100
# The headings that a column of identifiers may have.
_HEADINGS: Final = frozenset({"id", "warrant", "warrant_id", "revocation", "revocation_id"})
# Nobody asks for a revocation to be taken back that there is not.
_NOT_DONE: Final = frozenset({"failed", "not_revoked"})
_COLUMNS: Final = (
    Column("warrant", "warrant_id"),
    Column("revocation", "revocation_id"),
    Column("outcome", "outcome"),
    Column("message", "message", wraps=True),
)

Results = list[dict[str, Any]]


@dataclass
class BatchCalls:
    """One change of all identifiers, in calls of a thousand; `results` are those so far."""

    session: ApiSession
    doing: str
    body: Mapping[str, object]
    given_id: str | None = None
    results: Results = field(default_factory=list)

    @cached_property
    def id(self) -> str:
        """The batch: the one that is continued, or a new one."""
        return self.given_id or f"svc_{BATCH}_{str(ULID()).lower()}"

    def run(self, ids: Mapping[str, Sequence[str]]) -> Exit:
        """Send all identifiers, by the field of the body that takes them; print the results."""
        total = sum(map(len, ids.values()))
        if self.session.request_approval is not None:
            self._ask(ids, total)
        try:
            with self.session.out.progress(self.doing, total) as bar:
                for name, some in ids.items():
                    for start in range(0, len(some), _MOST):
                        chunk = some[start : start + _MOST]
                        self.results += self._send({name: chunk})
                        bar.by(len(chunk))
        except BaseException:
            if len(self.results) < total:
                self.session.out.say(f"Stopped. The same command with --batch {self.id} continues.")
            raise
        finally:
            self._show()
        has_failed = any(each["outcome"] in _NOT_DONE for each in self.results)
        return Exit.FAILED if has_failed else Exit.DONE

    def _ask(self, ids: Mapping[str, Sequence[str]], total: int) -> None:
        """Ask for an approval of all calls, by the first one. Raises `WaitsForApproval`."""
        name, some = next((name, some) for name, some in ids.items() if some)
        body = {**self.body, name: some[:_MOST], "batch_id": self.id}
        self.session.api.post(_PATH, body, count=total)

    def _send(self, ids: Mapping[str, Sequence[str]]) -> Results:
        """Make a call, and repeat it while its answer is lost or something is unavailable."""
        body = {**self.body, **ids, "batch_id": self.id}
        for _ in range(_REPEATED):
            try:
                results: Results = self.session.api.post(_PATH, body)["results"]
            except NoUsableAnswer:
                continue
            if not any(each.get("code") == "unavailable" for each in results):
                return results
        last: Results = self.session.api.post(_PATH, body)["results"]
        return last

    def _show(self) -> None:
        counts = Counter(each["outcome"] for each in self.results)
        shown = self.results
        if len(shown) > _SHOWN_MOST and not self.body.get("dry_run"):
            shown = [each for each in shown if each["outcome"] == "failed"]
        document = {"batch_id": self.id, "results": self.results, "counts": counts}
        if shown or self.session.out.is_json:
            rows = [{"warrant_id": each["id"], **each} for each in shown]
            self.session.out.table(document, rows, _COLUMNS)
        said = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items())
        if self.body.get("dry_run"):
            self.session.out.say(f"Nothing was changed. It would be: {said or 'nothing'}.")
        else:
            self.session.out.say(f"{said or 'Nothing done'}. Batch {self.id}")


def read(path: Path | None, check: Callable[[str], str]) -> list[str]:
    """Return the identifiers in a file, one a line, or in the first column or one with a heading.

    `-` is standard input. Raises `WrongUsage`, with the number of the line, if `check` refuses one.
    """
    if path is None:
        return []
    try:
        with _opened(path) as file:
            return list(_checked(csv.reader(file), check, path))
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"{path} cannot be read: it is not UTF-8.") from None
    except csv.Error as error:
        raise WrongUsage(f"{path} cannot be read: {error}.") from None


def _opened(path: Path) -> AbstractContextManager[IO[str]]:
    if str(path) == "-":
        return nullcontext(sys.stdin)
    return path.open(newline="", encoding="utf-8-sig")


def _checked(rows: Iterable[list[str]], check: Callable[[str], str], path: Path) -> Iterator[str]:
    column = 0
    for number, row in enumerate(rows, 1):
        cells = [each.strip() for each in row]
        headings = [place for place, each in enumerate(cells) if each.lower() in _HEADINGS]
        if number == 1 and headings:
            column = headings[0]
        elif any(cells):
            try:
                yield check(cells[column] if column < len(cells) else "")
            except ValueError as error:
                heading = ", or this line a heading with warrant_id" if number == 1 else ""
                raise WrongUsage(f"{path}, line {number}: {error}{heading}.") from None


def body(action: str, **fields: object) -> dict[str, object]:
    """Return the body of a call without identifiers."""
    return {"action": action, **given(fields)}


def batch_id(value: str) -> str:
    """Return the identifier of a batch. Raises `ValueError`."""
    return _of(value, BATCH)


def either(value: str) -> str:
    """Return the identifier of a warrant or of a revocation. Raises `ValueError`."""
    return warrant_id(value) if value.startswith("svc_wrt_") else _of(value, REVOCATION)


def _of(value: str, kind: str) -> str:
    if not is_identifier(value, kind=kind):
        raise ValueError(f"must be svc_{kind}_ and a ULID in lower case")
    return value
