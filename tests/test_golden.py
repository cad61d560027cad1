"""This release goes on with the stores that releases left, from 1.0 on."""

from pathlib import Path

import pytest

from shared.operations.lists import publication
from tests import golden_stores as golden
from tests.operations.followers import Follower

_KEPT = [*sorted(golden.FOLDER.glob("*.tar.xz"))]


@pytest.mark.slow
@pytest.mark.parametrize("archive", [None, *_KEPT], ids=lambda each: each.name if each else "now")
def test_a_store_of_a_release_goes_on(archive: Path | None, tmp_path: Path) -> None:
    """OPS-11, F1861a: A store of each release since 1.0, and of this one, is read and goes on."""
    if archive is None:
        golden.make(archive := tmp_path / "now.tar.xz")
    left = golden.unpack(archive, tmp_path / "left")
    with left.opened() as (ports, tenant, clock):
        assert golden.find_true(ports, tenant, clock) == left.facts
        assert "svc_wrt_unlisted" in left.facts["refused"]
        client = Follower(tenant).poll(ports)
        tenant.revoke(ports, "svc_wrt_after")
        publication.publish_feed(ports, tenant.id)
        clock.advance(hours=2)
        assert publication.publish_due(ports).published == [tenant.id]
        expected = {*left.facts["refused"], "svc_wrt_after"}
        assert client.poll(ports).refuses == expected
        assert {*tenant.published(ports).revoked_ids} <= expected
