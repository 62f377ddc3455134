"""Real listings to build catalogs from: the `tools/list` answers of 35 public servers, where they are at hand."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.upstreams.listings import effect_of

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="session")
def real_listings() -> tuple[UpstreamListing, ...]:
    """All real servers, by short names as people would give them in `upstream.yaml`."""
    files = sorted((SHARED / "toolsets").glob("*.json"))
    if not files:
        pytest.skip(f"no captured tool lists in {SHARED / 'toolsets'}")
    listings: dict[str, UpstreamListing] = {}
    for file in files:
        tools = tuple(definition(tool) for tool in json.loads(file.read_text())["tools"])
        name = _short(file.stem) if _short(file.stem) not in listings else file.stem.lstrip("@")
        listings[name] = UpstreamListing(name, UpstreamState.READY, tools)
    return tuple(listings.values())


@pytest.fixture(scope="session")
def real_catalog(real_listings: tuple[UpstreamListing, ...]) -> Catalog:
    return Catalog.build(real_listings)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[list[tuple[Any, ...]], dict[str, Any]]]:
    """Executes a stub as the sandbox does: gives what `tool` was called with, and the names the module has then."""

    def execute(source: str) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
        calls: list[tuple[Any, ...]] = []

        def tool(*arguments: Any) -> Callable[[Any], Any]:
            calls.append(arguments)
            return lambda function: function

        servers = types.ModuleType("servers")
        servers.tool = tool  # type: ignore[attr-defined]
        servers.File = object  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "servers", servers)
        names: dict[str, Any] = {"__name__": "stub"}
        exec(compile(source, "stub.py", "exec"), names)
        return calls, names

    return execute


def definition(tool: dict[str, Any]) -> ToolDefinition:
    """A tool as it was captured."""
    hints = tool.get("annotations") or {}
    return ToolDefinition(
        tool["name"],
        tool.get("description") or "",
        title=tool.get("title"),
        input_schema=tool.get("inputSchema", {}),
        output_schema=tool.get("outputSchema"),
        effect=effect_of(hints),
        is_closed_world=hints.get("openWorldHint") is False,
    )


def _short(stem: str) -> str:
    name = stem.rsplit("__", 1)[-1].removeprefix("awslabs-")
    for word in ("-mcp-server", "mcp-server-", "server-", "-mcp", "mcp-"):
        name = name.replace(word, "")
    return name if name not in ("mcp", "") else stem.lstrip("@").split("__")[0]
