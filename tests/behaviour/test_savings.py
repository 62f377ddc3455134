"""What each call of our tools is counted as, in tokens, through a real product with real servers and a real sandbox.

The method is that of docs/operating.md.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.tools import definition_text
from codemode_server.support.tokens import estimate_tokens
from tests.behaviour.product import Product, configuration, opened
from tests.example_servers.office import issues_of
from tests.vocabulary import tokens_of

pytestmark = pytest.mark.slow

SHEET = "from servers.google_drive import get_sheet\nlen(get_sheet(sheetId='a'))"
ISSUES = "from servers.github import list_issues\n"


class Counted(Product):
    async def last(self) -> dict[str, Any]:
        """The last exchange, once it is written; those with `list_dir` wait for the servers."""
        row: dict[str, Any] = {}

        async def is_there() -> bool:
            with closing(sqlite3.connect(self.app.state_folder / "codemode.db")) as database:
                database.row_factory = sqlite3.Row
                newest = "SELECT * FROM exchanges WHERE server IS NULL ORDER BY number DESC LIMIT 1"
                row.update(database.execute(newest).fetchone() or {})
            return bool(row.get("tool", "list_dir") != "list_dir")

        await self.host.until(is_there)
        return row


@asynccontextmanager
async def product(folder: Path, **results: Any) -> AsyncIterator[Counted]:
    path = configuration(folder, results={"structured_content": False} | results)
    async with opened(path) as (app, host):
        yield Counted(app, host)


async def test_a_program_is_counted_by_what_it_sent_and_returned_and_what_its_calls_would_have(tmp_path: Path) -> None:
    async with product(tmp_path) as it:
        answer = await it.host.run(ISSUES + "len(list_issues(repo='acme'))")
        assert "saved" not in answer.text
        row = await it.last()
        (issues,) = it.host.reached("list_issues")
        definitions = [
            estimate_tokens(definition_text(tool.definition))
            for server in it.app.catalog().servers
            for tool in server.tools
        ]
    assert issues["repo"] == "acme"
    assert row["sent"] == estimate_tokens(f"code: {ISSUES}len(list_issues(repo='acme'))")
    assert row["returned"] == estimate_tokens(answer.text)
    assert row["arguments"] == estimate_tokens(json.dumps({"repo": "acme"}, separators=(",", ":")))
    read = json.dumps(issues_of("acme"), separators=(",", ":"))
    assert row["results"] == pytest.approx(tokens_of(read), rel=0.1), "also by the real vocabulary"
    assert (row["calls"], row["turns"], row["all_definitions"]) == (1, 1, sum(definitions))


async def test_an_answer_says_what_it_saved_where_that_is_switched_on(tmp_path: Path) -> None:
    async with product(tmp_path, savings=True) as it:
        answer = await it.host.run(SHEET)
        assert answer.text.partition("\n[saved ≈")[2].startswith("2")
        failed = await it.host.run("1/0")
        assert "tokens more than direct calls]" in failed.text.splitlines()[-1]
