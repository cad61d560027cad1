"""The console's page of settings."""

import pytest
from playwright.sync_api import expect

from tests.functions.console.watched import Console

pytestmark = pytest.mark.slow


def test_a_setting_is_saved_by_itself(console: Console) -> None:
    """F479a: Each setting says what it does, and is saved alone; a refusal says why."""
    page, world = console.page, console.world
    console.expect_failures(400)
    console.open("#/settings")
    life = page.get_by_role("region", name="SRL lifetime")
    expect(life).to_contain_text("valid for 4 h")
    console.check_looks("settings")
    expect(life.get_by_role("textbox")).to_have_value("4h")
    life.get_by_role("textbox").fill("120m")
    life.get_by_role("button", name="Save").click()
    expect(life).to_contain_text("valid for 2 h")
    assert world.get("tenant/settings")["srl_ttl_seconds"] == 7200
    life.get_by_role("textbox").fill("5")
    life.get_by_role("button", name="Save").click()
    expect(life.get_by_role("alert")).to_contain_text("srl_ttl_seconds")
    assert world.get("tenant/settings")["srl_ttl_seconds"] == 7200
    chosen = page.get_by_role("region", name="SRL publication")
    chosen.get_by_role("combobox").select_option("immediate")
    chosen.get_by_role("button", name="Save").click()
    expect(chosen).to_contain_text("follows each change")
    assert world.get("tenant/settings")["srl_publication"] == "immediate"
    back = page.get_by_role("region", name="Unrevoke policy")
    back.get_by_role("combobox").select_option("own")
    back.get_by_role("button", name="Save").click()
    expect(back).to_contain_text("only what its own identity revoked")
    assert world.get("tenant/settings")["unrevoke_policy"] == "own"
