"""What the pages of tools show: the stubs, with the types that earlier calls showed, as of the last run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio.to_thread

from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.returns import ReturnType
from codemode_server.cli.page_products import PageProduct
from codemode_server.cli.permissions import KnownTools
from codemode_server.config.description import masked
from codemode_server.tokens import estimate_tokens
from codemode_server.web.ui.server_records import key_of
from codemode_server.web.ui.tool_pages import ServerTools, ToolLine, ToolStub

_MAX_LISTED = 1_000
_T = TypeVar("_T")


class StoredToolStubs:
    """Implements `web.ui.tool_pages.ToolRecords`. Nothing is started."""

    def __init__(self, product: PageProduct) -> None:
        self._product = product

    async def tools(self, key: str) -> ServerTools | None:
        return await self._of_server(key, _tools_of)

    async def tool(self, key: str, tool_key: str) -> ToolStub | None:
        def stub(server: Server, mask: Callable[[str], str]) -> ToolStub | None:
            found = next((it for it in server.tools if key_of(it.raw_name) == tool_key), None)
            return None if found is None else _stub_of(server, found, mask)

        return await self._of_server(key, stub)

    async def _of_server(self, key: str, read: Callable[[Server, Callable[[str], str]], _T | None]) -> _T | None:
        def of_server() -> _T | None:
            present = self._product.present()
            with KnownTools.of(present) as known:
                server = next((it for it in known.catalog.servers if key_of(it.raw_name) == key), None)
                return None if server is None else read(server, partial(masked, loaded=present))

        return await anyio.to_thread.run_sync(of_server)


def _tools_of(server: Server, mask: Callable[[str], str]) -> ServerTools:
    shown = [
        ToolLine(mask(it.name), key_of(it.raw_name), it.effect, mask(it.summary)) for it in server.tools[:_MAX_LISTED]
    ]
    return ServerTools(
        mask(server.raw_name), key_of(server.raw_name), tuple(shown), more=len(server.tools) - len(shown)
    )


def _stub_of(server: Server, tool: Tool, mask: Callable[[str], str]) -> ToolStub:
    source = mask(tool.stub.source)
    return ToolStub(
        mask(server.raw_name),
        key_of(server.raw_name),
        mask(f"{server.name}.{tool.name}"),
        mask(f"{server.raw_name}/{tool.raw_name}"),
        tool.effect,
        _origin(tool.returned),
        estimate_tokens(source),
        source,
    )


def _origin(returned: ReturnType) -> str:
    if returned.awaits_first_call:
        return "learned at the first call"
    match returned.origin:
        case "observed":
            return f"learned from {returned.calls:,} call{'' if returned.calls == 1 else 's'}"
        case "declared":
            return "declared by the server"
    return "not known"
