"""The audit log over HTTP, page by page."""

from collections.abc import Callable
from typing import Any

from tests.kit.api import Tenant

PATH = "/v1/audit-logs"


def read(tenant: Tenant, **query: Any) -> dict[str, Any]:
    """A page of the log; `from_` is the parameter `from`."""
    parameters = {name.removesuffix("_"): value for name, value in query.items()}
    answer = tenant.read_only.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    page = dict(answer.json())
    assert set(page) == {"audit_logs", "total", "cursor"}
    return page


def walk(
    tenant: Tenant, between: Callable[[], object] = int, /, **query: Any
) -> list[dict[str, Any]]:
    """The entries of all pages, with something done between each page and the next."""
    entries, cursor = list[dict[str, Any]](), dict[str, str]()
    while True:
        page = read(tenant, **query, **cursor)
        entries += page["audit_logs"]
        if page["cursor"] is None:
            return entries
        cursor = {"cursor": page["cursor"]}
        between()
