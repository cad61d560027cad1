"""Another implementation of RFC 6962 follows our log: roots, proofs, and consistency."""

import base64
from typing import Any, Final

import pytest

from functions.transparency_log import log, merkle, sealing
from functions.transparency_log.log import LogTree
from shared.model.audit import records
from shared.ports import Ports
from tests.kit.peers import asked
from tests.kit.sealed_log import head_of
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

_PASSES: Final = (1, 2, 250, 3, 260, 40)


def peer(request: dict[str, Any]) -> Any:
    """What the other implementation says is wrong."""
    return asked("tlog", "tlog_peer.py", request)


@pytest.mark.slow
def test_another_implementation_follows_the_log(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """LOG-4, F346a: `pymerkle` accepts our roots, our proofs, and that each tree extends others."""
    roots, proofs = dict[int, str](), list[dict[str, Any]]()
    for entries in _PASSES:
        for _ in range(entries):
            clock.advance(seconds=1)
            tenant.revoke(ports, ports.new_id("wrt"))
        sealing.extend(ports, tenant.id)
        head = head_of(ports, tenant.id)
        roots[head.size] = head.root.hex()
        tree = LogTree(ports, tenant.id, head)
        for index in {0, 1, head.size // 2, head.size - 1}:
            path = [base64.b64encode(each).decode() for each in tree.path(index)]
            proofs.append({"index": index, "size": head.size, "path": path})
    assert len(roots) == len(_PASSES)
    data = [each.data for each in log.records(ports, tenant.id, 0, max(roots))]
    request = {
        "records": [base64.b64encode(each).decode() for each in data],
        "roots": roots,
        "proofs": proofs,
    }
    assert peer(request) == []
    # It would say so.
    first, *_ = proofs
    bad = {**first, "path": [base64.b64encode(records.leaf(b"x")).decode(), *first["path"][1:]]}
    assert peer(request | {"proofs": [bad]}) == [f"leaf {bad['index']} at {bad['size']}"]
    forged = {max(roots): merkle.EMPTY.hex(), min(roots): roots[min(roots)]}
    assert len(peer(request | {"roots": forged, "proofs": []})) == 3
