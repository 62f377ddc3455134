"""What a model reads of tools in each style of stub, and what that tells of the keys that its program uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from benchmarks.result_types.calls import corpus
from benchmarks.result_types.keys import StubTypes, Use
from benchmarks.result_types.product import Product
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import read_tool
from codemode_server.domain.tools import UpstreamListing

Style = Literal["none", "declared", "one call", "learned"]
STYLES: tuple[Style, ...] = ("none", "declared", "one call", "learned")


@dataclass(frozen=True)
class Stubs:
    """The stubs of all tools in one style."""

    catalog: Catalog

    def text(self, tools: Iterable[str]) -> str:
        """What `read_tool` gives of these tools."""
        return read_tool(self.catalog, ", ".join(self._path(tool) for tool in tools)).text

    def tells(self, use: Use) -> bool:
        """Whether the types in the stub say that there is this key."""
        return self._types(use.tool).tells(use.path, use.key)

    def is_data(self, use: Use) -> bool:
        """Whether the key is data: in a dict with any keys."""
        return self._types(use.tool).is_data(use.path, use.key)

    def tells_form(self, tool: str) -> bool:
        """Whether the stub says what the result is at all: a text, a list, a dict …"""
        return self._types(tool).tells_form

    def _types(self, tool: str) -> StubTypes:
        server, name = tool.split(".")
        return StubTypes(self.catalog.server(server).tool(name).stub.source, name)

    def _path(self, tool: str) -> str:
        server, name = tool.split(".")
        return self.catalog.server(server).tool(name).path


async def learned_in_steps(product: Product) -> dict[Style, Stubs]:
    """The four styles: of nothing known, of what servers declare, after one call to each tool, after several."""
    listings = [server.listing for server in product.catalog.servers]
    stubs: dict[Style, Stubs] = {
        "none": Stubs(Catalog.build(map(_without_output, listings))),
        "declared": Stubs(Catalog.build(listings)),
    }
    for calls in corpus():
        await product.call(calls.server, calls.tool, calls.arguments[0])
    stubs["one call"] = Stubs(product.catalog)
    for calls in corpus():
        for arguments in calls.arguments[1:]:
            await product.call(calls.server, calls.tool, arguments)
    stubs["learned"] = Stubs(product.catalog)
    return stubs


def _without_output(listing: UpstreamListing) -> UpstreamListing:
    tools = tuple(dataclasses.replace(tool, output_schema=None) for tool in listing.tools)
    return dataclasses.replace(listing, tools=tools)
