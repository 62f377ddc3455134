"""Rules on resources are decided by the URI that is read, also again after an edit while the reading waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import CallRefused, DecisionOutdated
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.resources import ResourceDefinition
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.gateway import Gateway
from codemode_server.redaction import Redactor
from codemode_server.sandbox.contract import Reply
from codemode_server.settings import Settings
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_journal import SqliteJournal
from tests.memory.upstreams import MemoryUpstreams

RESOURCES = (
    ResourceDefinition("doc://secret/{id}", "secret", is_template=True),
    ResourceDefinition("doc://{+path}", "any", is_template=True),
)


def settings(**permissions: Any) -> Settings:
    return Settings.model_validate({"servers": {"docs": {"command": "docs"}}, "permissions": permissions})


class EditedUpstreams(MemoryUpstreams):
    """The configuration gets these rules while the first reading waits."""

    def __init__(self, config: LiveConfig, edit: Settings) -> None:
        super().__init__()
        self.config, self.edit = config, edit
        self.read: list[str] = []

    async def respond(self, server: str, tool: str, arguments: dict[str, Any]) -> Any:
        if self.config.settings is not self.edit:
            self.config.replace(self.edit, Redactor([]))
            raise DecisionOutdated
        self.read.append(arguments["uri"])
        return Reply([{"type": "text", "text": arguments["uri"]}], "blocks")


async def read_after_an_edit(folder: Path, uri: str, *, is_linked: bool) -> list[str]:
    """What is read if `secret` is denied by an edit after the reading was allowed."""
    config = LiveConfig(settings())
    upstreams = EditedUpstreams(config, settings(rules=[{"deny": "docs/resources/secret"}]))
    catalog = Catalog.build([UpstreamListing("docs", UpstreamState.READY, (), resources=RESOURCES)])
    calls = ExecutionCalls(ExecutionId("x1"), RequestContext.of(Session("s1"), config))
    if is_linked:
        calls.links["docs", uri] = uri
    thread = DatabaseThread(folder)
    try:
        journal = SqliteJournal(thread, JournalCipher(folder))
        gateway = Gateway(catalog=lambda: catalog, upstreams=upstreams, journal=journal, config=config)
        await gateway.read(calls, "docs", uri)
    finally:
        thread.close()
    return upstreams.read


@pytest.mark.parametrize("is_linked", [False, True])
async def test_an_edit_that_denies_another_template_of_the_uri_stops_a_reading_that_waits(
    tmp_path: Path, is_linked: bool
) -> None:
    with pytest.raises(CallRefused, match="docs/resources/secret"):
        await read_after_an_edit(tmp_path, "doc://secret/7", is_linked=is_linked)


@pytest.mark.parametrize("is_linked", [False, True])
async def test_an_edit_that_denies_something_else_does_not(tmp_path: Path, is_linked: bool) -> None:
    assert await read_after_an_edit(tmp_path, "doc://open/7", is_linked=is_linked) == ["doc://open/7"]
