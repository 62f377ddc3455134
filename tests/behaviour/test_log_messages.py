"""What upstreams log during a call reaches the host under the server's name, at the level that the host wants, without
secrets and within limits, in both protocols on both sides. The upstream is a real process that logs what it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning

from codemode_server.gateway.host_log import MAX_BURST, MAX_MESSAGE_CHARACTERS, MAX_MESSAGES
from tests.behaviour.product import Host, configuration, in_memory

from .test_input_requests import asking, both_sides, told

pytestmark = pytest.mark.slow

SECRET = "s3cr3t-of-the-configuration"


@dataclass
class Console:
    """Where a host shows log messages."""

    lines: list[tuple[str, str | None, Any]] = field(default_factory=list)

    async def show(self, params: Any) -> None:
        self.lines.append((params.level, params.logger, params.data))


def logged(level: str, data: Any, logger: str | None = None) -> dict[str, Any]:
    named = {} if logger is None else {"logger": logger}
    return {"method": "notifications/message", "params": {"level": level, "data": data, **named}}


def wanting(mode: str, level: str | None, console: Console) -> dict[str, Any]:
    """The host of a protocol; the older one sets the level by a request, below."""
    return {"mode": mode, "logging_callback": console.show} | ({"log_level": level} if mode == "auto" else {})


async def set_level(host: Host, mode: str, level: str | None) -> None:
    if mode == "legacy" and level is not None:
        with pytest.warns(MCPDeprecationWarning):
            await host.client.set_logging_level(level)  # type: ignore[arg-type]


async def tell(host: Host, *messages: dict[str, Any], again: int = 1, **more: Any) -> None:
    code = f"from servers.asking import ask\nask(requests=[], tells={list(messages)!r} * {again}, **{more!r})"
    assert (await host.run(code)).content["status"] == "succeeded"


@both_sides
async def test_messages_from_the_level_of_the_host_on_reach_it_with_the_name_of_the_server(
    tmp_path: Path, host_era: str, era: str
) -> None:
    console = Console()
    path = configuration(tmp_path, asking(tmp_path, era))
    async with in_memory(path, **wanting(host_era, "info", console)) as host:
        await set_level(host, host_era, "info")
        await tell(host, logged("debug", "no"), logged("info", "hello", "db"), logged("error", {"code": 7}))
    assert console.lines == [("info", "asking/db", "hello"), ("error", "asking", '{"code": 7}')]
    assert told(tmp_path, "level")[-1] == "info"


async def test_messages_are_masked_cleaned_and_cut(tmp_path: Path) -> None:
    console = Console()
    server = asking(tmp_path, "legacy")
    server["asking"]["env"] = {"API_TOKEN": SECRET}
    async with in_memory(configuration(tmp_path, server), **wanting("legacy", None, console)) as host:
        texts = [
            logged("error", f"key {SECRET[:5]}\u200b{SECRET[5:]} \x1b[2Jend", f"a\nb {SECRET}"),
            logged("error", {"deep": [SECRET]}),
            logged("error", "x" * 5_000),
        ]
        await tell(host, *texts)
    shown = repr(console.lines)
    assert SECRET not in shown
    assert "\\x1b" not in shown
    (_, logger, first), (_, _, second), (_, _, third) = console.lines
    assert (first.startswith("key "), first.endswith(" end")) == (True, True)
    assert logger is not None
    assert logger.startswith("asking/a b ")
    assert '"deep"' in second
    assert third == "x" * MAX_MESSAGE_CHARACTERS + "…"


async def test_a_flood_is_dropped_and_counted_and_the_next_program_is_heard_again(tmp_path: Path) -> None:
    console = Console()
    path = configuration(tmp_path, asking(tmp_path, "legacy"))
    async with in_memory(path, **wanting("legacy", None, console)) as host:
        await tell(host, logged("error", "flood"), again=3_000)
        flood = list(console.lines)
        console.lines.clear()
        await tell(host, logged("error", "calm"))
    assert MAX_BURST <= flood.count(("error", "asking", "flood")) <= MAX_MESSAGES
    level, logger, text = flood[-1]
    assert (level, logger) == ("warning", "codemode-server")
    assert text.endswith("log messages of MCP servers were dropped, since they came too fast or were too long")
    assert console.lines == [("error", "asking", "calm")]
