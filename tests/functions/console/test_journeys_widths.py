"""The pages between a phone and a desktop, and zoomed in."""

import pytest

from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow

_PAGES = (
    *("overview", "keys", "revocations", "lists", "authorizers", "api-keys", "accounts"),
    *("audit", "webhooks", "settings"),
)


def test_nothing_is_cut_in_any_width(console: Console) -> None:
    """F593a: From 720 pixels on, which are also 1440 at 200 %, nothing sticks out or is torn."""
    url = "https://hooks.example.com/rescind/of-the-desk-for-fraud-and-chargebacks"
    console.world.post("webhooks", url=url, events=["*"])
    for name in _PAGES:
        console.open(f"#/{name}")
        console.check_widths(name)
