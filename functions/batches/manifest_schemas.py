"""Bodies of the manifests of warrants to unrevoke together (REVOKE-26, REVOKE-27)."""

from typing import Annotated, Any, Final, Self

from pydantic import Field, JsonValue

from functions.batches.schemas import BatchId, OneRevocation, RevocationChanges
from shared.errors import InvalidRequest
from shared.model.identifiers import BATCH, MANIFEST, PERSON, REVOCATION
from shared.model.revocation_batches import BatchOutcome
from shared.model.unrevoke_manifests import MEMBERS_MAX, PART_SIZE, UnrevokeManifest
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    Reason,
    RecordBody,
    RequestBody,
    RevocationId,
    WarrantId,
    example,
    field,
    identifier,
    omittable,
    sample,
)
from shared.web.paging import PageBody

# 50,000 warrant identifiers fit.
MANIFEST_BODY_MAX: Final = 4 * 1024 * 1024

ManifestId = Annotated[str, field("Identifier of the manifest.", **identifier(MANIFEST))]
_GROUP: Final[dict[str, JsonValue]] = {
    "created_by": "ann@example.com",
    "created_by_id": sample(PERSON),
    "reason": "laptops stolen",
    "count": 640,
}
_MANIFEST: Final[dict[str, JsonValue]] = {
    "id": sample(MANIFEST),
    "unrevoke_batch_id": sample(BATCH),
    "sha256": "9f86d0" + "0" * 58,
    "count": 640,
    "parts": 2,
    "groups": [_GROUP],
    "created_by": "admin@acme.svc",
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-12-21T12:00:00Z",
}
_MEMBER: Final[dict[str, JsonValue]] = {
    "revocation_id": sample(REVOCATION),
    "warrant_id": "svc_wrt_laptop-17",
    "created_by": "admin@acme.svc",
    "reason": "laptops stolen",
}


class CreateManifest(RequestBody):
    """The revocations to delete together: pass one or more of the fields."""

    model_config = example(batch_id=sample(BATCH))

    batch_id: BatchId | None = omittable("Include all revocations of this batch.")
    revocation_ids: (
        Annotated[list[OneRevocation], Field(min_length=1, max_length=MEMBERS_MAX)] | None
    ) = omittable("Identifiers of revocations to include.")
    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=MEMBERS_MAX)] | None = (
        omittable("Identifiers of warrants. Their current revocations are included.")
    )

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of the operation. Raises `InvalidRequest` without any."""
        fields = {name: getattr(self, name) for name in CreateManifest.model_fields}
        if not any(fields.values()):
            raise InvalidRequest("body: pass batch_id, revocation_ids or warrant_ids.")
        return {name: each for name, each in fields.items() if each}


class ApplyManifestPart(RequestBody):
    """The reason for unrevoking the members."""

    model_config = example(reason="imported by mistake")

    reason: Reason = Field(description="Reason, recorded in the audit log.")


class ManifestGroup(RecordBody):
    """The number of members that one identity revoked for one reason."""

    model_config = example(**_GROUP)

    created_by: str | None = field(
        "Identity that revoked the warrants; null for all groups after the first 50."
    )
    created_by_id: str | None = field(
        "Identifier of the person who revoked the warrants; null if it was not a person."
    )
    reason: str | None = field("Reason of the revocations; null for all groups after the first 50.")
    count: int = field("Number of members.", minimum=1)


class ManifestBody(RecordBody):
    """An immutable set of revocations."""

    model_config = example(**_MANIFEST)

    id: ManifestId
    unrevoke_batch_id: str = field(
        "Identifier of the batch for all changes by this manifest.", **identifier(BATCH)
    )
    sha256: str = field(
        "SHA-256, in hexadecimal, of the sorted revocation identifiers, each followed by a line "
        "feed."
    )
    count: int = field("Number of members.", minimum=0, maximum=MEMBERS_MAX)
    parts: int = field(f"Number of parts, with up to {PART_SIZE} members each.", minimum=0)
    groups: list[ManifestGroup] = field(
        "Number of members by identity and reason, largest groups first."
    )
    created_by: str = field("Identity that created the manifest.")
    created_at: MomentOut = field("Time of creation.")
    expires_at: MomentOut = field("Expiry of the manifest. It is not available afterwards.")


class NewManifest(ManifestBody):
    """A new manifest."""

    model_config = example(**_MANIFEST, not_revoked=["svc_wrt_free"])

    not_revoked: list[str] = Field(
        default_factory=list,
        description="Identifiers from the request without a revocation.",
    )

    @classmethod
    def of_new(cls, result: tuple[UnrevokeManifest, list[str]]) -> Self:
        """Return the body for a new manifest."""
        body = cls.of(result[0])
        body.not_revoked = result[1]
        return body


class ManifestPartChanges(RevocationChanges):
    """The outcome for each member of a part."""

    model_config = example(
        batch_id=sample(BATCH),
        results=[
            {
                "id": sample(REVOCATION),
                "outcome": "unrevoked",
                "revocation_id": sample(REVOCATION),
                "warrant_id": "svc_wrt_laptop-17",
            }
        ],
        counts=dict.fromkeys(BatchOutcome, 0) | {"unrevoked": 1},
    )


class ManifestMember(RecordBody):
    """A revocation in a manifest."""

    model_config = example(**_MEMBER)

    revocation_id: RevocationId
    warrant_id: str = field("Identifier of the warrant.")
    created_by: str | None = field(
        "Identity that revoked the warrant; null if the revocation no longer exists."
    )
    reason: str | None = field("Reason of the revocation; null if the revocation no longer exists.")


class ManifestMembers(PageBody):
    """A page of the members of a manifest."""

    model_config = example(members=[_MEMBER], total=640, cursor=CURSOR)

    members: list[ManifestMember] = field("The members, sorted by revocation identifier.")
    total: int = field("Number of members.", minimum=0)
    cursor: NextCursor
