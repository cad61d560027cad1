"""Tables of DynamoDB that were restored are known by the time at which they were made."""

from dataclasses import replace

import pytest

from shared.adapters.aws.dynamodb import DynamoStore
from shared.operations.operator import deployment, doctor, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.aws import aws
from tests.kit.tenants import Tenant


@pytest.mark.slow
def test_restored_tables_are_marked(ports: Ports, few_partitions: None) -> None:
    """OPS-10, F577c: If tables were made since an operator saw them, `recover` ends with a review.

    That is so if one table was, and if the records say the same as the newest list.
    """
    with aws() as account:
        store = DynamoStore(account.dynamodb, table_prefix=account.table_prefix)
        ports = replace(ports, store=store)
        acme = Tenant.create(ports)
        assert restored.read_review(ports, acme.id) is None
        assert not recovery.recover(ports, acme.operator).unknown
        seen = deployment.read_deployment(ports)
        first, *rest = str(seen.tables_made_at).split(" ")
        other = " ".join(["2026-01-01T00:00:00+00:00", *rest])
        assert first != other
        deployment.write(ports, seen, replace(seen.next(), tables_made_at=other))
        (finding,) = doctor.examine(ports)
        assert "differ from the ones that an operator last confirmed" in finding.problem
        assert restored.read_review(ports, acme.id) is None
        done = recovery.recover(ports, acme.operator)
        assert done.unknown.reasons[0].startswith("The records were restored, at ")
        assert done.unknown.review
        assert any("is not reviewed" in each.problem for each in doctor.examine(ports))
        assert not recovery.recover(ports, acme.operator, reviewed=True).unknown
        assert restored.read_review(ports, acme.id) is None
