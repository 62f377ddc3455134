"""The page of servers in a real Chromium: its buttons by the keyboard, live parts, themes and phones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.chromium import ENTER, TAB, Chromium
from tests.web.test_ui_in_chromium import do, in_browser
from tests.web.test_ui_in_chromium import has_chromium as has_chromium
from tests.web.test_ui_servers import is_enabled

pytestmark = pytest.mark.slow
SERVERS = {
    "github": {"command": "/nonexistent/server"},
    "s" * 60: {"command": "/nonexistent/server", "enabled": False},
}


async def focus(browser: Chromium, text: str) -> None:
    """Press Tab until an element with this text has the focus."""
    await do(browser.run, "document.querySelector('main').focus()")
    for _ in range(30):
        await do(browser.type, TAB)
        if text in str(await do(browser.run, "return document.activeElement.textContent")):
            return
    raise AssertionError(f"nothing with {text!r} can be reached by Tab")


async def test_a_server_is_switched_by_the_keyboard_alone(tmp_path: Path) -> None:
    async with in_browser(tmp_path, servers=SERVERS) as (browser, site, _):
        await do(browser.open, f"{site.base}/servers")
        await focus(browser, "Disable github")
        await do(browser.type, ENTER)
        await do(browser.until, "main", "disabled: github")
        assert not is_enabled(tmp_path, "github")
        await focus(browser, "Enable github")
        await do(browser.type, ENTER)
        await do(browser.until, "main", "enabled: github")
        assert is_enabled(tmp_path, "github")
        assert [it for it in await do(browser.console) if "favicon" not in it] == []
