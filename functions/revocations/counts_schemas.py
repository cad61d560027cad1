"""Query and bodies of the revocations per day (REVOKE-31)."""

from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from pydantic import BaseModel, Field, JsonValue

from shared.errors import InvalidRequest
from shared.model.revocation_counts import DAYS_MAX
from shared.web.fields import DateIn, DateOut, RecordBody, example, shown

DAYS_DEFAULT: Final = 14
_DAY: Final[dict[str, JsonValue]] = {"date": "2026-11-21", "created": 7, "removed": 1}


class Window(NamedTuple):
    """The first and the last day that are asked for."""

    start: date
    end: date


class CountsQuery(BaseModel):
    """The query of GET /v1/revocations/counts; both days are included."""

    from_: DateIn | None = Field(
        default=None,
        alias="from",
        description=f"The first day. If it is omitted, {DAYS_DEFAULT} days are counted.",
    )
    to: DateIn | None = Field(default=None, description="The last day; today if it is omitted.")

    def window(self, now: datetime) -> Window:
        """Return the days. Raises `InvalidRequest` if they end first or are too many."""
        end = self.to or now.date()
        start = self.from_ or end - timedelta(days=DAYS_DEFAULT - 1)
        if start > end:
            raise InvalidRequest("from: must not be later than to.")
        if end - start >= timedelta(days=DAYS_MAX):
            raise InvalidRequest(f"from: must be at most {DAYS_MAX - 1} days before to.")
        return Window(start, end)


class RevocationDay(RecordBody):
    """How many revocations were made and deleted on one day, in UTC."""

    model_config = example(**_DAY)

    date: DateOut = shown("The day.")
    created: int | None = shown(
        "How many warrants were revoked; null if it is not known.", minimum=0
    )
    removed: int | None = shown(
        "How many revocations were deleted, whenever they were made; null if it is not known.",
        minimum=0,
    )


class RevocationCounts(RecordBody):
    """How many revocations were made and deleted on each day."""

    model_config = example(known_from="2026-10-24", days=[_DAY])

    known_from: DateOut | None = shown(
        "The first day of which the numbers are known; null if none is known yet."
    )
    days: list[RevocationDay] = shown("Each day that was asked for, oldest first.")
