"""The labels of tools, resources and prompts: those of the configuration in force, else a guess."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from codemode_server.calls.policy.names import Spellings, fits
from codemode_server.calls.targets import CallTarget, PromptTarget, ResourceTarget, ToolTarget
from codemode_server.catalog.catalog import Server, Tool
from codemode_server.catalog.labels import PUBLIC_SINK, guess_labels, guess_resource_labels
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.flows import ANY_TOOL, Source


class ToolLabels:
    """Labels under the configuration in force; those of a tool are found once."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._settings = config.settings
        self._by_tool: WeakKeyDictionary[Tool, frozenset[str]] = WeakKeyDictionary()
        self._by_server: WeakKeyDictionary[Server, frozenset[str]] = WeakKeyDictionary()

    def of(self, target: CallTarget) -> frozenset[str]:
        match target:
            case ToolTarget(server, tool):
                return self.of_tool(server, tool)
            case ResourceTarget(server, found, is_linked):
                stated = self._stated(server.raw_name, target.spellings)
                is_expanded = not is_linked and (found.resource is None or found.resource.definition.is_template)
                guessed = guess_resource_labels(found.uri, is_expanded=is_expanded)
            case PromptTarget(server):
                stated, guessed = self._stated(server.raw_name, target.spellings), frozenset()
        return guessed | self._of_readers(server) if stated is None else stated

    def of_tool(self, server: Server, tool: Tool) -> frozenset[str]:
        self._follow_edits()
        if (known := self._by_tool.get(tool)) is None:
            stated = self._stated(server.raw_name, Spellings.of_tool(tool))
            known = guess_labels(server.raw_name, tool.definition) if stated is None else stated
            self._by_tool[tool] = known
        return known

    def of_source(self, source: Source) -> frozenset[str]:
        """The labels of what was read: those that the configuration gives its tool by now, else those of then."""
        if source.tool == ANY_TOOL or "/" in source.tool:  # of several tools, resources or prompts
            return source.labels
        server = self._config.settings.servers.get(source.server)
        if server is None or not server.labels:
            return source.labels
        stated = self._stated(source.server, Spellings(source.tool, source.title.partition(".")[2]))
        return source.labels if stated is None else stated

    def _of_readers(self, server: Server) -> frozenset[str]:
        """The labels of what the tools of a server read, which its resources and prompts may hold as well."""
        self._follow_edits()
        if (known := self._by_server.get(server)) is None:
            known = frozenset().union(*(self.of_tool(server, tool) for tool in server.tools)) - {PUBLIC_SINK}
            self._by_server[server] = known
        return known

    def _follow_edits(self) -> None:
        if self._settings is not self._config.settings:
            self._settings = self._config.settings
            self._by_tool, self._by_server = WeakKeyDictionary(), WeakKeyDictionary()

    def _stated(self, server: str, names: Spellings) -> frozenset[str] | None:
        return stated_labels(self._config.settings, server, names)


def stated_labels(settings: Settings, server: str, names: Spellings) -> frozenset[str] | None:
    """The labels that the configuration gives what has these names; None if it gives none."""
    known = settings.servers.get(server)
    if known is None:
        return None
    for glob, labels in known.labels.items():
        # What a label restricts must not slip past it; what takes all labels away has to be meant.
        if fits(names, glob, is_wide=bool(labels)):
            return frozenset(labels)
    return None
