"""Direct tools: what `direct` offers to the host beside the four, and what a call of one does.

Real upstreams, the product as it is, and a real client of both eras.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from anyio import to_thread
from mcp.types import ImageContent, TextContent

from codemode_server.cli import run
from codemode_server.config.settings import Settings
from codemode_server.mcp_server.tools.registry import definitions
from tests.behaviour.product import PLAIN, Host, configuration, in_memory, in_memory_for_all, over_stdio
from tests.database import rows
from tests.fork_server import small_upstream

FOUR = ["list_dir", "read_tool", "search_tools", "execute_code"]
CLOCK = (
    PLAIN
    + """
import base64, json
server = Server("clock")
log = open(sys.argv[1], "a", buffering=1)

@server.tool(annotations={"readOnlyHint": True})
def time_in(city: str, seconds: bool = False) -> str:
    "The time in a city."
    print(json.dumps([city, seconds]), file=log)
    return f"12:00 in {city}"

@server.tool(annotations={"readOnlyHint": False, "destructiveHint": True})
def stop(reason: str) -> str:
    "Stop the clock."
    print("stop", file=log)
    return "stopped"

@server.tool()
def rows(count: int) -> dict[str, Any]:
    "Many rows."
    return {"rows": [{"id": number, "name": f"row {number}"} for number in range(count)]}

@server.tool()
def fail() -> str:
    "Fails."
    raise ToolError("no such clock")

PIXEL = base64.b64encode(b"\\x89PNG not really").decode()
@server.tool()
def face() -> Any:
    "A picture."
    return {}

called = server._called
def with_picture(params, call):
    if params["name"] != "face":
        return called(params, call)
    blocks = [{"type": "text", "text": "the face", "annotations": {"audience": ["user"]}, "_meta": {"x": 1}},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"}]
    return {"content": blocks, "isError": False}
server._called = with_picture
server.run()
"""
).replace("import sys\n", "import sys\nfrom typing import Any\n", 1)


def clock(folder: Path, **settings: Any) -> dict[str, Any]:
    script = folder / "clock.py"
    script.write_text(CLOCK)
    return {"clock": small_upstream(script, str(folder / "clock.log")) | settings}


async def names(host: Host) -> list[str]:
    return [tool.name for tool in (await host.client.list_tools()).tools]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("direct")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(folder: Path) -> AsyncIterator[Host]:
    """With all tools of the server exposed, and short results."""
    path = configuration(
        folder, clock(folder, direct=["*"]), results={"structured_content": False}, limits={"output_tokens": 300}
    )
    async with in_memory_for_all(path) as opened:
        yield opened


pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


class TestWhatIsOffered:
    async def test_nothing_but_the_four_without_a_setting(self, tmp_path: Path) -> None:
        async with in_memory(configuration(tmp_path, clock(tmp_path))) as host:
            assert await names(host) == FOUR
        assert [tool["name"] for tool in definitions(Settings())] == FOUR

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    async def test_every_tool_of_a_server_or_those_that_a_glob_names(self, tmp_path: Path, mode: str) -> None:
        async with in_memory(configuration(tmp_path, clock(tmp_path, direct=["*"])), mode=mode) as host:
            every = await names(host)
        async with in_memory(configuration(tmp_path, clock(tmp_path, direct=["time*"])), mode=mode) as host:
            one = await names(host)
            answer = await host.call("clock__time_in", city="Ulm")
        assert every == [*FOUR, *(f"clock__{name}" for name in ("time_in", "stop", "rows", "fail", "face"))]
        assert one == [*FOUR, "clock__time_in"]
        assert answer.text == "12:00 in Ulm"

    async def test_a_definition_has_the_upstream_s_words_and_the_name_of_its_server(self, host: Host) -> None:
        listed = {tool.name: tool for tool in (await host.client.list_tools()).tools}
        tool = listed["clock__time_in"]
        assert tool.description == "[clock] The time in a city."
        assert tool.input_schema == {
            "type": "object",
            "properties": {"city": {"type": "string"}, "seconds": {"type": "boolean", "default": False}},
            "required": ["city"],
        }
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        stop = listed["clock__stop"].annotations
        assert stop is not None
        assert (stop.read_only_hint, stop.destructive_hint) == (False, True)

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    async def test_a_cached_listing_is_offered_with_the_first_answer(self, tmp_path: Path, mode: str) -> None:
        """Hosts ask once, at the start; the server may not be up by then."""
        path = configuration(tmp_path, clock(tmp_path, direct=["*"]))
        async with in_memory(path) as host:
            known = await names(host)
        async with over_stdio(path, mode=mode) as host:
            assert await names(host) == known
            assert (await host.call("clock__time_in", city="Rom")).text == "12:00 in Rom"

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    async def test_a_server_that_was_never_listed_is_offered_once_it_is(self, tmp_path: Path, mode: str) -> None:
        path = configuration(tmp_path, clock(tmp_path, direct=["*"]))
        async with over_stdio(path, mode=mode) as host:
            four = (await host.client.list_tools()).tools[:4]
            await host.until(lambda: _has_direct(host))
            listed = (await host.client.list_tools()).tools
        assert listed[:4] == four
        assert [tool.name for tool in listed[4:6]] == ["clock__time_in", "clock__stop"]


async def _has_direct(host: Host) -> bool:
    return len(await names(host)) > len(FOUR)


class TestACall:
    async def test_gives_the_blocks_of_the_upstream(self, host: Host) -> None:
        answer = await host.call("clock__face")
        text, image = answer.result.content
        assert text == TextContent(type="text", text="the face")
        assert isinstance(image, ImageContent)
        assert (image.mime_type, image.data[:4]) == ("image/png", "iVBO")
        assert answer.result.structured_content is None

    @pytest.mark.parametrize(
        ("shown_files", "types"), [("refuse", ["text", "text"]), ("mark", ["text", "image", "text"])]
    )
    async def test_leaves_out_or_marks_the_files_where_personal_data_is_protected(
        self, tmp_path: Path, shown_files: str, types: list[str]
    ) -> None:
        privacy = {"servers": {"clock": "tokens"}, "shown_files": shown_files}
        async with in_memory(configuration(tmp_path, clock(tmp_path, direct=["*"]), privacy=privacy)) as host:
            answer = await host.call("clock__face")
        assert [block.type for block in answer.result.content] == types
        assert "searched for personal data" in answer.text

    async def test_gives_the_upstream_s_error_as_an_error(self, host: Host) -> None:
        answer = await host.call("clock__fail")
        assert answer.result.is_error
        assert answer.text == "Error executing tool fail: no such clock"

    async def test_cuts_a_long_result_and_stores_it_whole_for_a_program(self, host: Host) -> None:
        answer = await host.call("clock__rows", count=500)
        assert len(answer.text) < 2_500
        shown, remark = (block.text for block in answer.result.content if isinstance(block, TextContent))
        assert json.loads(shown)["rows"][0] == {"id": 0, "name": "row 0"}
        assert remark.startswith("[cut: the whole value (a dict of 1 keys,")
        expression = remark.partition("import results; ")[2].removesuffix("]")
        program = await host.run(f"from codemode import results\nlen({expression}['rows'])")
        assert program.text == "value:\n500"

    async def test_starts_no_sandbox_and_is_recorded_as_an_execution(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = configuration(tmp_path, clock(tmp_path, direct=["*"]))
        async with in_memory(path) as host:
            await host.call("clock__time_in", city="Bern")
            [(execution_id,)] = rows(tmp_path / "state", "SELECT execution_id FROM executions")
        assert await to_thread.run_sync(run, ["executions", "list", "--config", str(path)]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if execution_id in line]
        assert "succeeded" in line
        assert "none (direct call)" in line
        arguments = ["executions", "show", execution_id, "--json", "--config", str(path)]
        assert await to_thread.run_sync(run, arguments) == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["kind"], shown["sandbox"], shown["code"]) == ("direct call", None, None)
        assert [(call["tool"], call["status"]) for call in shown["calls"]] == [("clock.time_in", "succeeded")]
