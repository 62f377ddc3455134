"""The listings as the model may read them: without the new texts of tools that the permissions hold back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from codemode_server.config.live import LiveConfig
from codemode_server.domain.definitions import server_definition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing
from codemode_server.gateway.policy.readable_texts import readable_definition
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions
from codemode_server.off_loop import run_sized

_MANY_TOOLS = 20
"""The schemas of more are read in a thread."""
_MAX_TEXTS = 200
"""Accepted texts of one server that are read from the store; further tools are shown without a description."""


@dataclass(frozen=True, slots=True)
class _Readable:
    """A definition as it is listed, and as the model may read it."""

    listed: ToolDefinition
    shown: ToolDefinition


class ReadableListings:
    """Remembers what it has made, so that an unchanged tool remains the same object."""

    def __init__(self, definitions: ToolDefinitions, config: LiveConfig) -> None:
        self._definitions = definitions
        self._config = config
        self._readable: dict[str, dict[tuple[str, str], _Readable]] = {}
        """By server, and by name and digest of the tool."""
        self._listings: dict[str, tuple[UpstreamListing, UpstreamListing]] = {}
        """What each server lists, and what is shown of it."""

    async def prepare(self, server: str, tools: Sequence[ToolDefinition]) -> None:
        """Do the work for the tools of a listing that nobody has accepted, before it is published."""
        waiting = [it for it in tools if self._definitions.unaccepted(server, it) is not None]
        texts = self._texts(server, waiting)
        made = await run_sized(len(waiting) > _MANY_TOOLS, _made, waiting, texts)
        self._readable[server] = {(it.listed.name, it.listed.digest): it for it in made}

    def within(self, listings: Iterable[UpstreamListing]) -> list[UpstreamListing]:
        """What is shown of these listings."""
        return [self._within(listing) for listing in listings]

    def notice_acceptances(self) -> bool:
        """Whether other tools are held back than when the listings were made, also by what another process accepted."""
        is_other = False
        for server, (listing, shown) in self._listings.items():
            if shown is not listing:
                self._definitions.read_acceptances(server)
            is_other = is_other or self._shown_parts(listing) != (shown.tools, shown.description)
        return is_other

    def _within(self, listing: UpstreamListing) -> UpstreamListing:
        known, shown = self._listings.get(listing.name, (None, listing))
        tools, description = self._shown_parts(listing)
        if known is not listing or (shown.tools, shown.description) != (tools, description):
            is_same = tools is listing.tools and description == listing.description
            shown = listing if is_same else replace(listing, tools=tools, description=description)
            self._listings[listing.name] = listing, shown
        return shown

    def _shown_parts(self, listing: UpstreamListing) -> tuple[tuple[ToolDefinition, ...], str]:
        return self._shown_tools(listing), self._shown_description(listing)

    def _shown_description(self, listing: UpstreamListing) -> str:
        settings = self._config.settings.servers.get(listing.name)
        if not listing.description or (settings is not None and settings.description):  # the person's own words
            return listing.description
        said = server_definition(listing.description)
        if self._definitions.held_back(listing.name, said) == "allow":
            return listing.description
        return readable_definition(said, self._definitions.accepted_text(listing.name, said)).description

    def _shown_tools(self, listing: UpstreamListing) -> tuple[ToolDefinition, ...]:
        server = listing.name
        held = {number for number, it in enumerate(listing.tools) if self._definitions.held_back(server, it) != "allow"}
        if not held:
            return listing.tools
        return tuple(self._shown(server, it) if number in held else it for number, it in enumerate(listing.tools))

    def _shown(self, server: str, tool: ToolDefinition) -> ToolDefinition:
        readable, key = self._readable.setdefault(server, {}), (tool.name, tool.digest)
        known = readable.get(key)
        if known is None:
            (known,) = _made([tool], self._texts(server, [tool]))
        elif known.listed is not tool:  # the settings state another effect
            known = _Readable(tool, replace(known.shown, effect=tool.effect))
        readable[key] = known
        return known.shown

    def _texts(self, server: str, tools: Sequence[ToolDefinition]) -> list[str]:
        read = [self._definitions.accepted_text(server, it) for it in tools[:_MAX_TEXTS]]
        return read + [""] * (len(tools) - len(read))


def _made(tools: Sequence[ToolDefinition], texts: Sequence[str]) -> list[_Readable]:
    return [_Readable(it, readable_definition(it, text)) for it, text in zip(tools, texts, strict=True)]
