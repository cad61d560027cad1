"""The caller of a request, over HTTP (AUTH-13)."""

from typing import Self

from shared.model.identifiers import TENANT
from shared.operations.access import api_keys
from shared.web.api_keys import KEY_EXAMPLE, Scopes
from shared.web.fields import ApiKeyId, MomentOut, ResponseBody, example, identifier, sample, shown
from shared.web.routes import ApiRequest, router, serves

routes = router("API keys")


class CallerBody(ResponseBody):
    """The caller of this request."""

    model_config = example(
        tenant_id=sample(TENANT),
        tenant_name="Acme",
        identity="gateway@acme.svc",
        api_key_id=KEY_EXAMPLE["id"],
        api_key_name=KEY_EXAMPLE["name"],
        scopes=KEY_EXAMPLE["scopes"],
        expires_at=KEY_EXAMPLE["expires_at"],
        creates_until=KEY_EXAMPLE["expires_at"],
    )

    tenant_id: str = shown("Identifier of the tenant.", **identifier(TENANT))
    tenant_name: str = shown("The name of the tenant, from its settings.")
    identity: str = shown(
        "The name of the caller in the audit log: of the service account that owns the key, or of "
        "the key itself."
    )
    api_key_id: ApiKeyId
    api_key_name: str = shown("The name that the key was given.")
    scopes: Scopes
    expires_at: MomentOut | None = shown(
        "When the secret of this request stops being accepted; null if it does not expire."
    )
    creates_until: MomentOut | None = shown(
        "The latest end of the keys that it may create; null if they may end at any time or never."
    )

    @classmethod
    def of(cls, found: api_keys.Introduction) -> Self:
        """Return the body for a caller with its tenant and its key."""
        caller, settings, key = found.caller, found.settings, found.key
        return cls(
            tenant_id=caller.tenant_id,
            tenant_name=settings.name,
            identity=caller.identity,
            api_key_id=key.id,
            api_key_name=key.name,
            scopes=caller.scopes,
            expires_at=caller.key_expires_at,
            creates_until=caller.bounds_keys_at,
        )


@routes.get("/v1/whoami")
@serves(api_keys.introduce)
async def get_caller(here: ApiRequest) -> CallerBody:
    """Get who calls: the tenant, the API key of the request and its scopes.

    Every key may ask.
    """
    return CallerBody.of(here.run(api_keys.introduce))
