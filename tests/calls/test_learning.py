"""What the gateway learns from calls: what stubs show of it, what is kept on disk, and what is told of a result that is
not what its stub said.

A real gateway and real SQLite; the upstream is the test's own. The stubs are read from the catalog as the product's is
kept: with the news of what was learned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.learned_types.learning import Learning
from codemode_server.storage.cache import TYPES, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite import FILE_NAME
from codemode_server.support.redaction import Redactor
from tests.calls.gateways import gateway_of
from tests.database import rows
from tests.memory.journal import NoJournal
from tests.memory.upstreams import MemoryUpstreams

SECRET = "ghp_0123456789abcdef"
ISSUES = ToolDefinition("list-issues", input_schema={"type": "object", "properties": {"repo": {"type": "string"}}})
TOOLS = (ISSUES,)
_NUMBERS = count(1)


@dataclass
class Product:
    """A gateway with what it learned, and the catalog that shows it."""

    folder: Path
    tools: tuple[ToolDefinition, ...] = TOOLS
    is_learning: bool = True
    upstream: MemoryUpstreams = field(default_factory=MemoryUpstreams)

    def __post_init__(self) -> None:
        self.database, self.thread = Database(self.folder), DatabaseThread(self.folder)
        settings = Settings.model_validate({"types": {"learn": self.is_learning}})
        self.config = config = LiveConfig(settings, Redactor([SECRET]))
        self.learning = Learning(Cache(self.database, self.thread, TYPES), config)
        self._catalog = Catalog.build(
            [UpstreamListing("git-hub", UpstreamState.READY, self.tools)], observed=self.learning.known
        )
        take = self.learning.take_event
        self.gateway = gateway_of(self.catalog, self.upstream, NoJournal(), config, subscribers=[take])

    def catalog(self) -> Catalog:
        self._catalog = self._catalog.with_observed(self.learning.take_news())
        return self._catalog

    def program(self) -> ExecutionCalls:
        return ExecutionCalls(ExecutionId(f"x{next(_NUMBERS)}"), Caller.of(Session("s"), self.config))

    async def call(self, answer: Any, tool: str = "list_issues", calls: ExecutionCalls | None = None) -> ExecutionCalls:
        self.upstream.answer = answer
        calls = calls or self.program()
        await self.gateway.call(calls, "git-hub", tool, {})
        await checkpoint()  # learning follows the answer
        return calls

    def tool(self, name: str = "list_issues") -> Tool:
        return self.catalog().tool("git_hub", name)

    async def close(self) -> None:
        await self.learning.save()
        self.thread.close()
        self.database.close()


@pytest.fixture
def product(tmp_path: Path) -> Callable[..., Product]:
    return lambda **options: Product(tmp_path / "state", **options)


Make = Callable[..., Product]


class TestASuccessfulCall:
    async def test_that_asked_for_the_raw_result_teaches_nothing(self, product: Make) -> None:
        it = product()
        it.upstream.answer = {"id": 1}
        await it.gateway.call(it.program(), "git-hub", "list_issues", {}, raw=True)
        assert it.tool().returned.calls == 0
        await it.call({"id": 1})
        assert it.tool().returned.calls == 1, "control"

    async def test_with_a_secret_in_a_key_does_not_teach_it(self, product: Make) -> None:
        it = product()
        await it.call({"id": 1, "name": 2, "kind": 3, "size": 4, SECRET: 5})
        source = it.tool().stub.source
        assert "size: int" in source
        assert SECRET not in source


class TestWhatWasLearned:
    async def test_is_forgotten_with_other_schemas(self, product: Make) -> None:
        first = product()
        await first.call([{"id": 1}])
        await first.close()
        changed = ToolDefinition("list-issues", input_schema={"type": "object", "properties": {}})
        assert product(tools=(changed,)).tool().returned.calls == 0
        assert product().tool().returned.calls == 1, "control"

    async def test_by_two_products_at_once_is_added_up(self, product: Make) -> None:
        one, other = product(), product()
        for _ in range(3):
            await one.call({"id": 1, "a": 1})
            await other.call({"id": 1, "b": 1})
            await one.learning.save()
            await other.learning.save()
        assert "a: NotRequired[int]" in other.tool().stub.source, "what the other one wrote is taken over"
        await one.close()
        await other.close()
        source = product().tool().stub.source
        assert "observed in 6 calls" in source
        assert "a: NotRequired[int]" in source
        assert "b: NotRequired[int]" in source

    async def test_that_can_not_be_kept_fails_no_call_and_is_kept_later(
        self, product: Make, caplog: pytest.LogCaptureFixture
    ) -> None:
        it = product()
        await it.call({"id": 1})
        with closing(sqlite3.connect(it.folder / FILE_NAME, isolation_level=None)) as connection:
            connection.execute("ALTER TABLE cache RENAME TO gone")
            assert await it.learning.save() is False
            await it.call({"id": 1})
            connection.execute("ALTER TABLE gone RENAME TO cache")
        assert "can't be stored for next time" in caplog.text
        await it.close()
        assert product().tool().returned.calls == 2

    async def test_is_nothing_where_learning_is_off(self, product: Make) -> None:
        it = product(is_learning=False)
        await it.call({"id": 1})
        await it.close()
        assert rows(it.folder, "SELECT * FROM cache") == []
        assert it.tool().observed is None
        assert "-> Any:\n" in it.tool().stub.source, "it does not claim that there was no call"
