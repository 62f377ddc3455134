"""Every tool of 35 real servers: its stub compiles, runs, type-checks, sends the declared names, and costs little."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.cli.sync import sync
from tests.catalog.checks import strict_errors

Load = Callable[[str], tuple[list[tuple[Any, ...]], dict[str, Any]]]


def test_every_stub_runs_and_sends_exactly_the_declared_names(real_catalog: Catalog, load: Load) -> None:
    assert real_catalog.tool_count == 1_469
    for tool in real_catalog.tools():
        calls, names = load(tool.stub.source)
        (server, name, *renamed) = calls[0]
        assert (server, name, len(calls)) == (tool.server, tool.name, 1)
        mapping = renamed[0] if renamed else {}
        parameters = inspect.signature(names[name]).parameters.values()
        declared = [it.name for it in parameters if it.kind is not it.VAR_KEYWORD]
        sent = {mapping.get(parameter, parameter) for parameter in declared}
        assert sent == set(tool.definition.input_schema.get("properties", {})), tool.path
        assert [parameter.name for parameter in tool.parameters] == declared


def test_stubs_cost_fewer_tokens_than_the_definitions_they_replace(real_catalog: Catalog) -> None:
    """With every result type, which the definitions counted here do not even have."""
    encoding = pytest.importorskip("bpe_openai").get_encoding("o200k_base")
    stubs = definitions = 0
    for tool in real_catalog.tools():
        it = tool.definition
        definition = {"name": it.name, "description": it.description, "inputSchema": it.input_schema}
        stubs += len(encoding.encode(tool.stub.source))
        definitions += len(encoding.encode(json.dumps(definition, separators=(",", ":"), ensure_ascii=False)))
    assert stubs < definitions


CONSUMER = """
import asyncio
from servers.github import create_issue, list_issues
from servers.filesystem import read_text_file
from servers.twilio_alpha import TwilioApiV2010_ListCall

number = create_issue("me", "repo", "title", labels=["bug"])["number"]
other: int = create_issue({"owner": "me", "repo": "repo", "title": "title"})
text: str = read_text_file(path="a")["content"]
length: int = sum(len(found["content"]) for found in read_text_file.map(["a", "b"], concurrency=2, head=5).ok)
titles = [issue["title"] for issue in list_issues.pages("me", "repo").first(10)]
is_error: bool = create_issue.raw("me", "repo", "title")["isError"]
wholes = [whole["content"] for whole in read_text_file.raw.map(["a", "b"]).ok]
TwilioApiV2010_ListCall("AC1", StartTime_gt="2026-01-01")


async def main() -> None:
    rows = await list_issues({"owner": "me", "repo": "repo"})
    pages = await asyncio.gather(*[list_issues("me", name) for name in "ab"])
    files = await read_text_file.map([("a",), {"path": "b"}])
    print(rows, pages, files.errors, [issue async for issue in list_issues.pages(owner="me", repo="repo")])
"""

MISTAKEN = """
from servers.filesystem import read_text_file
from servers.github import create_issue

create_issue("me", "repo", "title", lables=["bug"])
create_issue("me", "repo", 3)
create_issue("me")
read_text_file(path="a")["contents"]
read_text_file.mop(["a"])
"""


@pytest.mark.slow
def test_all_stubs_and_programs_in_both_styles_pass_the_strict_type_checker(
    real_catalog: Catalog, tmp_path: Path
) -> None:
    sync(real_catalog, tmp_path / "servers")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    errors = strict_errors(tmp_path, "servers", "consumer.py", "mistaken.py")
    assert {line.split(": error:")[0] for line in errors} == {f"mistaken.py:{line}" for line in range(5, 10)}, errors[
        :5
    ]
