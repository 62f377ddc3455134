"""Base64 that a tool gave: the program has it whole, and wherever the program writes it out stands a summary.

The tools' results pass through the code that makes replies of what upstreams send.
"""

# ruff: noqa: E501 - short programs read best on one line

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.results import to_reply
from tests.sandbox.lab import HEAD, Lab, Tools
from tests.tables import rows, tables

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
TABLES = tables(__file__)

PICTURE = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(6_000)
DATA = base64.b64encode(PICTURE).decode()
OTHER = random.Random(2).randbytes(3_000)
KEY = base64.b64encode(random.Random(3).randbytes(400)).decode()
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}
SUMMARY = "(6,008 bytes, image/png: .files[0])"
RESULTS: dict[str, dict[str, Any]] = {
    "media": {"content": [IMAGE], "structuredContent": {"content": [IMAGE], "key": KEY}},
    "said": {"content": [{"type": "text", "text": "before"}, IMAGE, {"type": "text", "text": "after"}]},
    "listed": {"content": [{"type": "text", "text": json.dumps([{"shot": DATA}, {"key": KEY}])}]},
    "address": {"content": [{"type": "text", "text": f"data:image/png;base64,{DATA}"}]},
    "wrapped": {"structuredContent": {"encoding": "base64", "content": base64.encodebytes(OTHER).decode()}},
    "plain": {"structuredContent": {"key": KEY, "text": "x"}},
}
ALL = "from servers.media import *\nfrom codemode import show\n"


class Media(Tools):
    async def load(self, module: str) -> dict[str, Any]:
        match module.split("."):
            case ["servers", "media"]:
                return {"kind": "package", "names": list(RESULTS), "doc": "Media."}
            case ["servers", "media", tool]:
                return {"kind": "module", "source": f'{HEAD}\n@tool("media", "{tool}")\ndef {tool}() -> Any: ...\n'}
        return await super().load(module)

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False) -> Reply:
        if server != "media":
            return await super().call(server, tool, arguments, raw=raw)
        return Reply(RESULTS[tool]) if raw else to_reply(RESULTS[tool])


async def test_the_program_has_the_bytes(lab: Lab) -> None:
    code = f"""{ALL}
import base64
r, s = media(), said()
data = r["content"][0]["data"]
saved = r.files[0].save("/workspace/a/p.png")
[len(data), base64.b64decode(data) == r.files[0].data == s.files[0].data == saved.read_bytes() == listed().files[0].data, r["files"] == r.files, s.text, base64.b64decode(wrapped()["content"]) == wrapped().files[0].data]
"""
    assert await lab.value(code, Media()) == [len(DATA), True, True, "before\nafter", True]


@pytest.mark.parametrize(("code", "value"), rows(TABLES["values"]))
async def test_a_value_has_a_summary_in_place_of_bytes(lab: Lab, code: str, value: Any) -> None:
    outcome = await lab.run(ALL + code, Media())
    assert outcome.value == value
    assert "show(file)" in outcome.hint


@pytest.mark.parametrize("code", rows(TABLES["printed"]))
async def test_nothing_that_a_program_prints_or_raises_shows_bytes(lab: Lab, code: str) -> None:
    outcome = await lab.run(ALL + code, Media())
    written = (
        outcome.stdout + outcome.stderr + (outcome.error.message + outcome.error.traceback if outcome.error else "")
    )
    assert SUMMARY in written
    assert DATA[100:150] not in written


async def test_text_that_merely_looks_like_base64_is_shown_whole(lab: Lab) -> None:
    """Beside files and without: only what a tool declared to be a file is summarized."""
    code = f"{ALL}r = media()\nprint(r['key'])\nprint({KEY!r} + 'A' * 300)\n[plain(), 'iVBORw0KGgo' + 'b' * 300]"
    outcome = await lab.run(code, Media())
    assert outcome.value == [{"key": KEY, "text": "x"}, "iVBORw0KGgo" + "b" * 300]
    assert outcome.stdout == f"{KEY}\n{KEY}{'A' * 300}\n"
    assert outcome.hint == ""


async def test_a_tool_gets_the_base64_itself(lab: Lab) -> None:
    tools = Media()
    await lab.value(f"{ALL}from servers.github import echo\necho(a=media()['content'][0]['data'], b=media())", tools)
    assert tools.calls[-1][2] == {"a": DATA, "b": {"content": [IMAGE], "key": KEY}}
