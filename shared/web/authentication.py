"""Authentication: the Authorization header and the caller of its key (AUTH-1, AUTH-2)."""

from collections.abc import Callable

from starlette.requests import Request

from shared.model.callers import Caller
from shared.operations.access import api_keys
from shared.ports import Ports
from shared.web.errors import Unauthorized


def authenticate(
    ports: Ports,
    request: Request,
    *,
    source_ip: str,
    request_id: str,
    refusing: Callable[[], object] = lambda: None,
) -> Caller:
    """Return the caller of the request, as identified by its API key.

    Raises `Unauthorized` without a Bearer header, `InvalidApiKey` for a key that is not accepted,
    and `Unavailable` if the store cannot answer. `refusing` is called before a refusal is made,
    and may raise instead (AUTH-9).
    """
    try:
        secret = _secret(request.headers.getlist("authorization"))
    except Unauthorized:
        refusing()
        raise
    credential = api_keys.authenticate(ports, secret, refusing=refusing)
    return Caller(
        tenant_id=credential.tenant_id,
        identity=credential.identity,
        scopes=credential.scopes,
        key_id=credential.key_id,
        source_ip=source_ip,
        request_id=request_id,
        key_expires_at=credential.expires_at,
        is_session=credential.is_session,
        name=credential.name,
    )


def _secret(values: list[str]) -> str:
    if not values:
        raise Unauthorized("Authorization: the header is required, as Bearer and an API key.")
    value = ", ".join(values)
    if "," in value:
        # Two headers, or one that a gateway joined: it is unclear which key is meant.
        return value
    scheme, _, secret = value.partition(" ")
    # RFC 9110, 11.1: a scheme ignores case, and one or more spaces follow it.
    if scheme.lower() != "bearer":
        raise Unauthorized("Authorization: the scheme must be Bearer, with an API key.")
    return secret.lstrip(" ")
