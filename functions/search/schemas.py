"""Bodies of the search."""

from typing import Annotated, Final

from pydantic import BaseModel, Field, JsonValue

from shared.model.identifiers import SIGNING_KEY
from shared.web.fields import RecordBody, ResponseBody, decimal, example, field, sample

_HITS_MAX: Final = 50
_LIMIT: Final = decimal("0|[1-9][0-9]{0,8}", must=f"be a whole number from 1 to {_HITS_MAX}")
_HIT: Final[dict[str, JsonValue]] = {
    "kind": "signing_key",
    "id": sample(SIGNING_KEY),
    "name": "checkout",
    "note": "issuer",
    "status": "active",
}


class SearchQuery(BaseModel):
    """The query of a search."""

    q: str = Field(
        min_length=2,
        max_length=200,
        description="An identifier, the beginning of an identifier, or words of a name.",
    )
    limit: Annotated[int, Field(ge=1, le=_HITS_MAX), _LIMIT] = Field(
        default=8, description="Maximum number of results."
    )


class SearchHit(RecordBody):
    """A search result."""

    model_config = example(**_HIT)

    kind: str = field(
        "Kind of the resource.",
        enum=[
            "warrant",
            "revocation",
            "batch",
            "signing_key",
            "api_key",
            "service_account",
            "authorizer",
            "audit_entry",
        ],
    )
    id: str = field("Identifier of the resource.")
    name: str | None = field(
        "Name of the resource, the warrant of a revocation, or the action of an audit entry; null "
        "if there is none."
    )
    note: str | None = field(
        "Further information, such as the reason of a revocation; null if there is none."
    )
    status: str | None = field("Status of the resource; null if it has none.")


class SearchResults(ResponseBody):
    """The results of a search."""

    model_config = example(results=[_HIT])

    results: list[SearchHit] = field("The resources found, each listed once.")
