"""The page of servers, as a browser without script reads it and uses its buttons; servers and products are real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server import cli
from codemode_server.web.ui.server_records import key_of
from tests.behaviour.product import in_memory, office
from tests.behaviour.test_changes import found
from tests.web.pages import pages

GITHUB = f"servers/{key_of('github')}"


def is_enabled(folder: Path, name: str) -> bool:
    servers = json.loads((folder / "upstream.yaml").read_text())["servers"]
    return bool(servers[name].get("enabled", True))


class TestSwitching:
    async def test_writes_the_configuration_and_a_running_product_notices(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers=office(tmp_path, "github", "slack")) as (site, _):
            assert f"/{GITHUB}/disable" in await site.text("servers")
            async with in_memory(tmp_path / "upstream.yaml", watch=True) as host:
                assert "create_issue" in await found(host, "create issue"), "control"
                assert (await site.post(f"{GITHUB}/disable")).status_code == 303
                shown = await site.text("servers")
                assert "disabled: github; a running codemode-server notices in seconds" in shown
                assert f"/{GITHUB}/enable" in shown

                async def is_gone() -> bool:
                    return "create_issue" not in await found(host, "create issue")

                async def is_back() -> bool:
                    return "create_issue" in await found(host, "create issue")

                await host.until(is_gone)
                assert (is_enabled(tmp_path, "github"), is_enabled(tmp_path, "slack")) == (False, True)
                await site.post(f"{GITHUB}/enable")
                await host.until(is_back)
        assert is_enabled(tmp_path, "github")

    async def test_says_what_the_command_says(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, _):
            await site.post(f"{GITHUB}/disable")
            on_page = await site.text("servers")
        assert cli.run(["disable", "github", "--config", str(tmp_path / "upstream.yaml")]) == 0
        assert capsys.readouterr().out.strip() in on_page

    async def test_is_seen_although_an_earlier_check_found_otherwise(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers={"github": {"command": "/nonexistent/server"}}) as (site, _):
            await site.post("servers/check")
            async with in_memory(tmp_path / "upstream.yaml") as host:

                async def is_checked() -> bool:
                    return "As checked" in await site.text("servers")

                await host.until(is_checked)
            assert 'class="status failed"' in await site.text("servers"), "control"
            await site.post(f"{GITHUB}/disable")
            assert 'class="status disabled"' in await site.text("servers")
            await site.post(f"{GITHUB}/enable")
            assert "not checked" in await site.text("servers")

    async def test_of_a_server_that_is_gone_changes_nothing(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, _):
            before = (tmp_path / "upstream.yaml").read_text()
            refused = await site.post(f"servers/{key_of('gone')}/disable")
        assert refused.status_code == 409
        assert "the configuration has no such server (any more)" in refused.text
        assert (tmp_path / "upstream.yaml").read_text() == before

    async def test_that_cannot_be_written_says_why(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, _):
            (tmp_path / "upstream.yaml").chmod(0o400)
            refused = await site.post(f"{GITHUB}/disable")
            (tmp_path / "upstream.yaml").chmod(0o600)
            assert (await site.post(f"{GITHUB}/disable")).status_code == 303, "control"
        assert refused.status_code == 409
        assert "is read-only; make it writable first" in refused.text
