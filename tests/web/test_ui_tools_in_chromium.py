"""The pages of tools in a real Chromium: reached by the keyboard, in both themes, on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.domain.tools import ToolDefinition
from codemode_server.web.server_pages import key_of
from tests.web.chromium import ENTER, TAB
from tests.web.test_ui_in_chromium import barriers, do, in_browser
from tests.web.test_ui_in_chromium import has_chromium as has_chromium
from tests.web.test_ui_servers_in_chromium import focus
from tests.web.test_ui_tools import listed

pytestmark = pytest.mark.slow
SERVERS = {"github": {"command": "/nonexistent/server"}}
TOOLS = f"tools/{key_of('github')}"
PATHS = (TOOLS, f"{TOOLS}/{key_of('create_issue')}")
RESULT = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOL = ToolDefinition(
    "create_issue",
    f"Creates an issue. {'Long words: ' + 'w' * 200}",
    input_schema={"type": "object", "properties": {"title": {"type": "string", "description": "Its title."}}},
    output_schema=RESULT,
)


async def test_a_stub_is_reached_and_read_by_the_keyboard_alone(tmp_path: Path) -> None:
    async with in_browser(tmp_path, servers=SERVERS) as (browser, site, _):
        await listed(tmp_path, TOOL)
        await do(browser.open, f"{site.base}/servers")
        await focus(browser, "1 tools of github")
        await do(browser.type, ENTER)
        await do(browser.until, "h1", "Tools of github")
        await focus(browser, "create_issue")
        await do(browser.type, ENTER)
        await do(browser.until, "h1", "Tool github.create_issue")
        assert "def create_issue(title: str = ...) -> CreateIssueResult" in await do(browser.text, "ol.code")
        for _ in range(12):
            await do(browser.type, TAB)
            if await do(browser.run, "return document.activeElement.className") == "code":
                break
        else:
            pytest.fail("the code can't be scrolled by the keyboard")
        assert [it for it in await do(browser.console) if "favicon" not in it] == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_fits_on_a_phone(tmp_path: Path, path: str) -> None:
    async with in_browser(tmp_path, servers=SERVERS) as (browser, site, _):
        await listed(tmp_path, TOOL)
        await do(browser.open, f"{site.base}/{path}")
        await do(browser.resize, 360, 740)
        assert "create_issue" in await do(browser.text, "main"), "control"
        assert await do(browser.run, "return document.documentElement.scrollWidth") <= 360


@pytest.mark.network
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_that_keeps_people_out(tmp_path: Path, theme: str) -> None:
    async with in_browser(tmp_path, servers=SERVERS) as (browser, site, _):
        await listed(tmp_path, TOOL)
        await do(browser.use_theme, theme)
        for path in ("servers", *PATHS):
            await do(browser.open, f"{site.base}/{path}")
            assert await barriers(browser) == [], path
