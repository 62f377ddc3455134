"""The pages of a server's tools: what programs import, with what earlier calls showed of the results."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path

import pytest

from codemode_server.config import load
from codemode_server.domain.tools import ToolDefinition
from codemode_server.records.reports import key_of
from codemode_server.storage.cache import LISTINGS, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.upstreams.cache import CachedListing, fingerprint
from codemode_server.upstreams.listing_store import ListingStore
from tests.behaviour.product import Host, in_memory, office
from tests.web.pages import Pages, pages

GITHUB = f"servers/{key_of('github')}"


def stub_on(page: str) -> str:
    """The text of the stub, as the page shows it."""
    (listed,) = re.findall(r'<ol class="code"[^>]*>(.*?)</ol>', page, re.DOTALL)
    return "\n".join(unescape(it) for it in re.findall(r"<li>(.*?)</li>", listed, re.DOTALL))


async def read_by_a_model(host: Host, tool: str) -> str:
    answer = await host.call("read_tool", path=f"/servers/github/{tool}.py")
    return "\n".join(line for line in answer.text.strip().split("\n") if not line.startswith("# /servers/"))


async def opened(site: Pages, tool: str) -> str:
    return await site.text(f"tools/{key_of('github')}/{key_of(tool)}")


class TestTools:
    async def test_stub_is_the_one_that_models_read_and_says_what_calls_showed(self, tmp_path: Path) -> None:
        async with pages(tmp_path, servers=office(tmp_path, "github"), permissions={"default": "allow"}) as (site, _):
            async with in_memory(tmp_path / "upstream.yaml") as host:
                await host.settled()
            before = await opened(site, "list_issues")
            assert "learned at the first call" in before
            async with in_memory(tmp_path / "upstream.yaml") as host:
                await host.run("from servers.github import list_issues\nlist_issues(repo='a')")
                read = await read_by_a_model(host, "list_issues")
            after = await opened(site, "list_issues")
        assert "learned from 1 call" in after
        assert "observed in 1 call" in stub_on(after)
        assert "observed" not in stub_on(before), "control"
        assert read == stub_on(after).strip()


async def listed(folder: Path, *tools: ToolDefinition, server: str = "github") -> None:
    """Store a listing of a server, as a product does."""
    loaded = load(folder / "upstream.yaml")
    database, thread = Database(folder / "state"), DatabaseThread(folder / "state")
    stored = CachedListing(tools, stored_at=time.time())
    store = ListingStore(Cache(database, thread, LISTINGS), SealedTexts(JournalCipher(folder / "state")))
    await store.put(server, fingerprint(loaded.settings.servers[server]), stored)
    await thread.run(lambda _: None)
    thread.close()
    database.close()


class TestWhatServersWrote:
    @pytest.mark.page_attack
    async def test_is_text_on_both_pages(self, tmp_path: Path) -> None:
        hostile = "</li></ol><script>alert(1)</script><img src=x onerror=alert(1)>{{ 31337*7331 }}\u202e"
        schema = {"type": "object", "properties": {hostile: {"type": "string", "description": hostile}}}
        async with pages(tmp_path, servers={"github": {"command": "x"}}) as (site, _):
            await listed(tmp_path, ToolDefinition("evil", hostile, input_schema=schema))
            shown = await site.text(GITHUB) + await opened(site, "evil")
        assert "onerror=alert(1)&gt;" in shown, "control"
        assert "<script" not in shown
        assert "<img" not in shown
        assert str(31337 * 7331) not in shown
        assert "\u202e" not in shown

    @pytest.mark.page_attack
    async def test_has_no_secret_of_the_configuration(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        secret = "ghp_q8W2nR5tY7uI9oP1aS3dF6gH4jK0lZ"
        monkeypatch.setenv("GITHUB_TOKEN", secret)
        async with pages(tmp_path, servers={"github": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}}}) as (
            site,
            _,
        ):
            await listed(tmp_path, ToolDefinition("echo", f"Says {secret}."))
            shown = await site.text(GITHUB) + await opened(site, "echo")
        assert shown.count("Says ***.") >= 2, "control"
        assert secret not in shown
