"""The routes of all HTTP functions, for the local server and the OpenAPI document."""

from typing import Final

from functions.api_keys import handler as api_keys
from functions.audit_log import export as audit_export
from functions.audit_log import handler as audit_log
from functions.authorizers import handler as authorizers
from functions.feed import handler as feed
from functions.identities import handler as identities
from functions.revocations import handler as revocations
from functions.service_accounts import handler as service_accounts
from functions.signing_keys import handler as signing_keys
from functions.srl import handler as srl
from functions.srl import status as srl_status
from functions.status_lists import handler as status_lists
from functions.tenant_settings import handler as tenant_settings
from functions.trust import handler as trust
from functions.webhooks import handler as webhooks
from shared.capabilities import INSTALLED

ROUTERS: Final = (
    # Routes are tried in this order, so the most frequent ones for authorizers come first. Routes
    # below `/v1/revocations/` precede `/v1/revocations/{id}`, which would also match their paths.
    feed.routes,
    srl.routes,
    srl_status.routes,
    revocations.routes,
    *INSTALLED.routers("revocations"),
    authorizers.routes,
    *INSTALLED.routers("authorizers"),
    trust.routes,
    api_keys.routes,
    signing_keys.routes,
    *INSTALLED.routers("signing_keys"),
    service_accounts.routes,
    identities.routes,
    audit_export.routes,
    *INSTALLED.routers("audit_log"),
    audit_log.routes,
    tenant_settings.routes,
    webhooks.routes,
    status_lists.routes,
)
