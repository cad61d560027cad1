"""The caller, as it is told about itself (AUTH-13)."""

from dataclasses import dataclass

from shared.errors import InvalidApiKey, NotFound
from shared.model import api_keys
from shared.model.api_keys import ApiKey
from shared.model.callers import Caller, Scope
from shared.model.identifiers import API_KEY
from shared.model.tenants import TenantSettings
from shared.operations.base import allowance, tenants
from shared.operations.base.operation import operation
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class Introduction:
    """A caller with the settings of its tenant and the record of its API key."""

    caller: Caller
    settings: TenantSettings
    key: ApiKey


@operation(*Scope)
def introduce(ports: Ports, caller: Caller) -> Introduction:
    """Return who calls (AUTH-13). Raises `InvalidApiKey` if the key was deleted meanwhile."""
    records = api_keys.records(caller.tenant_id)
    try:
        settings, key = ports.gather(
            lambda: tenants.settings(ports, caller.tenant_id),
            lambda: allowance.find(
                ports, records, caller.key_id or "", kind=API_KEY, record=ApiKey
            ),
        )
    except NotFound:
        raise InvalidApiKey from None
    return Introduction(caller, settings, key)
