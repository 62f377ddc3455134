"""How often a small program waits for the host: each question costs about as much as a call.

Driven through the whole product; frames are counted where the host parses and writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemode_server.sandbox import frames
from tests.behaviour.product import configuration, in_memory, office

IMPORT = "from servers.github import list_issues\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What programs said to the host and waited for, in order."""
    asked: list[str] = []
    parse: Callable[[bytes], Any] = frames.parse

    def recorded(data: bytes) -> Any:
        frame = json.loads(data)
        if "id" in frame and frame["op"] != "done":
            asked.append(frame["op"])
        return parse(data)

    monkeypatch.setattr(frames, "parse", recorded)
    return asked


@pytest.mark.parametrize(
    ("code", "questions"),
    [
        ("1+1", []),
        (IMPORT, []),
        (IMPORT + "len(list_issues(repo='a'))", ["call"]),
        ("import servers.github.list_issues as li\nlen(li(repo='a'))", ["call"]),
        ("from servers import github\nlen(github.list_issues(repo='a'))", ["load", "call"]),
        ("import importlib\nimportlib.import_module('servers.github.list_issues').__name__", ["load", "load"]),
        ("from servers.github import *\nlen(list_issues(repo='a'))", [*["load"] * 4, "call"]),
    ],
)
async def test_a_program_gets_the_tools_it_imports_by_name_with_its_code(
    tmp_path: Path, asked: list[str], code: str, questions: list[str]
) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"))
    async with in_memory(path) as host:
        answer = await host.run(code)
        assert answer.content["status"] == "succeeded", answer.text
    assert asked == questions
