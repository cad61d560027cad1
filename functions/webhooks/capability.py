"""Webhooks as a capability: their additions to the core."""

from collections.abc import Iterator, Sequence
from typing import final

from shared.capabilities import Capability, WrappedField, WrappedFields, nothing
from shared.capabilities.inconsistency import Check
from shared.model.items import Item


@final
class Webhooks(Capability):
    """Webhooks: events of the audit log, sent to addresses of the tenant."""

    name = "webhooks"
    # An event that is sent again has the same identifier.
    recovery_steps = nothing
    # Receivers share the secret.
    trusted_signers = nothing
    protected_effects = nothing
    restore_checks = doctor_checks = failover_steps = schedule_steps = nothing

    def consistency_checks(self) -> Sequence[Check]:
        """Return the check of the number of webhooks."""
        from functions.webhooks import consistency

        return (consistency.check_count,)

    def wrapped_kinds(self) -> Sequence[tuple[str, WrappedFields]]:
        """Return the kind of a webhook, which has up to two secrets."""
        return (("webhooks", _secrets),)


def _secrets(item: Item) -> Iterator[WrappedField]:
    from functions.webhooks.records import Webhook, seal_context

    webhook = Webhook.from_item(item)
    secrets = (
        ("sealed_secret", webhook.sealed_secret, webhook.secret_number),
        ("former_secret", webhook.former_secret, webhook.secret_number - 1),
    )
    for name, sealed, number in secrets:
        if sealed is not None:
            yield WrappedField(name, sealed, seal_context(webhook.tenant_id, webhook.id, number))
