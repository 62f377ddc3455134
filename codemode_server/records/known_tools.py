"""Explains the decision on a call by the permissions and the tools as of the last run; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from codemode_server.calls.policy.explanation import Explanation, explain
from codemode_server.calls.policy.names import Spellings
from codemode_server.calls.policy.rules import PermissionRules, Subject
from codemode_server.calls.targets import CallTarget, ResourceTarget, ToolTarget
from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.config import LoadedSettings
from codemode_server.config.live import Caller, LiveConfig, local_principal
from codemode_server.config.problems import nearest
from codemode_server.domain.calls import Decision
from codemode_server.domain.errors import CodemodeError, UnknownTool
from codemode_server.domain.flows import SHARED, Holder, Source, SourceSet
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import ToolDefinition
from codemode_server.features import provided
from codemode_server.features.data_flow.flows import FlowRules, flows_to
from codemode_server.features.data_flow.labels import ToolLabels
from codemode_server.startup.stores import state_folder
from codemode_server.startup.upstream_catalog import UpstreamCatalog
from codemode_server.storage.sqlite import FILE_NAME
from codemode_server.support.setting_types import RuleEffect
from codemode_server.support.text import one_line

_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool, resource or prompt that a person named by `server/tool`."""

    subject: Subject
    is_known: bool = True
    uri: str | None = None
    target: CallTarget | None = None
    """None if the tool is not known, and for prompts."""
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The permissions, and the tools as of the last run."""

    loaded: LoadedSettings
    catalog: Catalog
    rules: PermissionRules
    held_back: Callable[[str, ToolDefinition], Decision | None]
    """The decision on calls of a tool since its definition is not accepted."""
    read: Mapping[Holder, Sequence[Source]]

    @classmethod
    @contextmanager
    def of(cls, loaded: LoadedSettings) -> Generator[KnownTools]:
        """As long as the database is open."""
        config = LiveConfig(loaded.settings)
        names = Caller.of(Session(""), config).names
        rules = PermissionRules(loaded.settings.permissions, names)
        if not loaded.settings.state.database and not (state_folder(loaded.settings) / FILE_NAME).exists():
            yield cls(loaded, Catalog.build([]), rules, lambda _server, _tool: None, {})
            return
        tools = UpstreamCatalog(loaded)
        try:
            yield cls(loaded, tools.current(), rules, tools.definitions.refusal, tools.stores.sources.all())
        finally:
            tools.stores.close()

    def subject(self, named: str, effect: RuleEffect | None = None) -> NamedTool:
        """Resolve `server/tool`, known or not. Raises `CodemodeError` if it has another form."""
        server_name, _, tool_name = named.partition("/")
        if not server_name or not tool_name:
            raise CodemodeError(f"{one_line(named, _MAX_CHARACTERS)!r} is not of the form SERVER/TOOL")
        server = self.catalog.by_name.get(server_name)
        try:
            if server is not None:
                return _named(server, tool_name, ToolLabels(LiveConfig(self.loaded.settings)))
        except UnknownTool:
            pass
        tool = Spellings(tool_name, name_alone(tool_name, Kind.TOOL))
        settings = self.loaded.settings.servers.get(server_name)
        stated = settings.effect_of(tool_name) if settings is not None else None
        server_spellings = Spellings(server_name, name_alone(server_name, Kind.SERVER))
        return NamedTool(Subject(server_spellings, tool, effect or stated or "write"), is_known=False)

    def explanation(
        self,
        call: str,
        arguments: Mapping[str, Any] | None,
        effect: RuleEffect | None = None,
        session: str | None = None,
    ) -> str:
        """Explain the decision on `server/tool` in lines, without the secrets of the configuration. Raises
        `CodemodeError` if it has another form, or nothing is stored of the session."""
        named = self.subject(call, effect)
        decided, about = self.explain(named, arguments, self.other_steps(named, session)), self.about(named)
        labels = f"labels: {', '.join(about['labels']) or 'none'}"
        lines = [decided.text, labels, *about["flows"], *about["privacy"]]
        first = [] if named.is_known else [f"{self.not_known(call)} By its name alone it would be:"]
        return self.loaded.redactor.text("\n".join([*first, *lines]))

    def not_known(self, call: str) -> str:
        """A sentence that says so of `server/tool`, with the name that was probably meant."""
        server_name, _, tool_name = call.partition("/")
        if not self.has_server(server_name):
            told, meant = f"there is no server {server_name}", nearest(server_name, self.loaded.settings.servers)
        elif (server := self.catalog.by_name.get(server_name)) is not None:
            told = f"there is no tool {call} in the last list of {server_name}"
            meant = nearest(tool_name, (it.raw_name for it in server.tools))
        else:
            told, meant = f"{server_name} was not listed yet; `codemode-server status` connects to it", None
        return one_line(f"{told}; did you mean {meant}?" if meant else f"{told}.", 2 * _MAX_CHARACTERS)

    def has_server(self, name: str) -> bool:
        return name in self.catalog.by_name or name in {**self.loaded.settings.servers, **self.loaded.invalid_servers}

    def about(self, found: NamedTool) -> dict[str, list[str]]:
        """The labels of a tool, the rules of flows that also decide, and the protection of personal data."""
        subject, settings = found.subject, self.loaded.settings
        return {
            "labels": sorted(found.labels),
            "flows": list(flows_to(settings.permissions, subject.server, subject.tool, found.labels)),
            "privacy": [
                line for lines in provided("tool_lines") for line in lines(settings, subject.server, subject.tool)
            ],
        }

    def other_steps(self, found: NamedTool, session: str | None) -> list[Decision]:
        """The decisions of the other steps of the policy, in a session that has read nothing or in this one."""
        if found.target is None:
            return []
        config = LiveConfig(self.loaded.settings)
        rules = FlowRules(config, ToolLabels(config))
        flows = rules.decide(found.target, self.sources(session)) if rules.regard(found.target) else None
        server, tool = found.target.server.raw_name, found.target
        held_back = self.held_back(server, tool.tool.definition) if isinstance(tool, ToolTarget) else None
        return [it for it in (held_back, flows) if it is not None]

    def sources(self, session: str | None) -> SourceSet:
        """The sources that a session has read, with those in /workspace. Raises `CodemodeError` if it is unknown."""
        principal = local_principal(self.loaded.settings).principal_id
        if session is not None and (principal, session) not in self.read:
            raise CodemodeError(f"nothing is stored of a session {session!r}; `codemode-server sources` lists them")
        own = () if session is None else self.read[principal, session]
        shared = (it for name in SHARED for it in self.read.get((principal, name), ()))
        return SourceSet([*own, *shared])

    def explain(
        self, found: NamedTool, arguments: Mapping[str, Any] | None, others: Sequence[Decision] = ()
    ) -> Explanation:
        return explain(self.rules, found.subject, arguments if found.uri is None else {"uri": found.uri}, others)


def _named(server: Server, name: str, labels: ToolLabels) -> NamedTool:
    if name.startswith("resources/"):
        found = server.resources.find(name.removeprefix("resources/"), {})
        target = ResourceTarget(server, found, is_linked=False)
        return NamedTool(
            Subject.of_reading(server, target.spellings), uri=found.uri, target=target, labels=labels.of(target)
        )
    if name.startswith("prompts/"):
        prompt = name.removeprefix("prompts/")
        is_known = any(it.name == prompt for it in server.listing.prompts)
        return NamedTool(Subject.of_reading(server, Spellings.of_prompt(prompt)), is_known)
    tool = server.tool(name)
    target_of_tool = ToolTarget(server, tool)
    return NamedTool(Subject.of_tool(server, tool), target=target_of_tool, labels=labels.of(target_of_tool))


def arguments_of(text: str, name: str) -> dict[str, Any]:
    """Arguments that a person wrote as JSON; `name` is where. Raises `CodemodeError` if it is not a JSON object."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodemodeError(f"{name} is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise CodemodeError(f'{name} is not a JSON object; write it like {{"owner": "acme"}}')
    return arguments
