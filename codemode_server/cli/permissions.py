"""The `permissions` command: explains the decision on a call, and tests a table of expected decisions.

No upstream is started: tools are known as of the last run, which says what they are called and what they claim to do.
`explain` also regards what is stored of changed tools and of what sessions have read; `test` regards the rules alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.terminal import announce, show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.description import masked
from codemode_server.config.live import LiveConfig, RequestContext, local_principal
from codemode_server.domain.calls import Decision
from codemode_server.domain.errors import CodemodeError, UnknownTool
from codemode_server.domain.flows import WORKSPACE, Holder, Source, SourceSet
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import ToolDefinition
from codemode_server.first_listing import LastRun, state_folder
from codemode_server.gateway.policy.changed_tools import ChangedToolsStep
from codemode_server.gateway.policy.explanation import Explanation, explain
from codemode_server.gateway.policy.flows import FlowRules, flows_to
from codemode_server.gateway.policy.labels import ToolLabels
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.protection import protection_lines
from codemode_server.gateway.policy.rules import PermissionRules, Subject
from codemode_server.gateway.targets import CallTarget, ResourceTarget, ToolTarget, prompt_spellings
from codemode_server.setting_types import RuleEffect, Section
from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.sqlite_sources import SqliteSources
from codemode_server.text import one_line

_MAX_CHARACTERS = 200


class ExpectedDecision(Section):
    """One row of a table."""

    call: str = Field(min_length=1)
    """`server/tool`."""
    args: dict[str, Any] = Field(default={})
    expect: Literal["allow", "deny", "ask"]
    effect: RuleEffect | None = None
    """For a tool that is not known; default: what the configuration says, else `write`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("explain", help="print which rule decides on a call, and why")
    add_config(one)
    one.add_argument("call", metavar="SERVER/TOOL")
    one.add_argument("--args", metavar="JSON", help="the arguments; without them, all that may be decided")
    one.add_argument("--session", metavar="ID", help="after what this session has read; `codemode-server sources`")
    one.add_argument("--effect", choices=["read", "write", "destructive"], help="for a tool that is not known")
    one.add_argument("--json", action="store_true", help="print JSON")
    table = actions.add_parser("test", help="compare the decisions on a table of calls; exit code 1 if one differs")
    add_config(table)
    table.add_argument("file", type=Path, metavar="FILE", help="YAML: a list of {call, args, expect}")


def run(parsed: argparse.Namespace) -> int:
    with KnownTools.of(load(config_file(parsed), require_trust=False, resolve=False)) as known:
        return _test(known, parsed.file) if parsed.action == "test" else _explain(known, parsed)


def _explain(known: KnownTools, parsed: argparse.Namespace) -> int:
    arguments = None if parsed.args is None else arguments_of(parsed.args, "--args")
    if parsed.json:
        subject = known.subject(parsed.call, parsed.effect)
        found = known.explain(subject, arguments, known.other_steps(subject, parsed.session))
        flows = known.flows(subject)
        about = {"call": parsed.call, "is_known": subject.is_known, "as_of": "last run"}
        labels = {"labels": sorted(subject.labels), "flows": flows, "privacy": known.protection(subject)}
        known.show(json.dumps(about | found.as_json() | labels, indent=2))
    else:
        known.show(explanation_text(known, parsed.call, arguments, parsed.effect, parsed.session))
    return 0


def explanation_text(
    known: KnownTools,
    call: str,
    arguments: Mapping[str, Any] | None,
    effect: RuleEffect | None = None,
    session: str | None = None,
) -> str:
    """What decides on `server/tool`, in lines; secrets of the configuration are not masked yet.

    Raises:
        CodemodeError: it has another form, or nothing is stored of the session.
    """
    subject = known.subject(call, effect)
    found = known.explain(subject, arguments, known.other_steps(subject, session))
    labels = f"labels: {', '.join(sorted(subject.labels)) or 'none'}"
    lines = [found.text, labels, *known.flows(subject), *known.protection(subject)]
    return "\n".join(lines if subject.is_known else [*lines, _NOT_KNOWN.format(call)])


_NOT_KNOWN = (
    "{} is not known from the last run, so only its name was compared; `codemode-server status` connects to the servers"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a person named by `server/tool`."""

    subject: Subject
    is_known: bool = True
    uri: str | None = None
    """Of a resource."""
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
    """What is stored of the sources of sessions."""

    @classmethod
    @contextmanager
    def of(cls, loaded: LoadedSettings) -> Generator[KnownTools]:
        """As long as the database is open."""
        config = LiveConfig(loaded.settings)
        names = RequestContext.of(Session(""), config).names
        rules = PermissionRules(loaded.settings.permissions, names)
        if not (state_folder(loaded.settings) / FILE_NAME).exists():
            yield cls(loaded, Catalog.build([]), rules, lambda _server, _tool: None, {})
            return
        last_run = LastRun.read(loaded)
        try:
            held_back = ChangedToolsStep(last_run.accepted, config).decide_on
            read, _ = SqliteSources(last_run.database, last_run.thread).load()
            yield cls(loaded, last_run.catalog, rules, held_back, read)
        finally:
            last_run.thread.close()
            last_run.database.close()

    def subject(self, named: str, effect: RuleEffect | None = None) -> _Found:
        """What `server/tool` means, also if nothing of that name is known.

        Raises:
            CodemodeError: it has another form.
        """
        server_name, _, tool_name = named.partition("/")
        if not server_name or not tool_name:
            raise CodemodeError(f"{one_line(named, _MAX_CHARACTERS)!r} is not of the form SERVER/TOOL")
        server = self.catalog.by_name.get(server_name)
        try:
            if server is not None:
                return _known(server, tool_name, ToolLabels(LiveConfig(self.loaded.settings)))
        except UnknownTool:
            pass
        tool = Spellings(tool_name, name_alone(tool_name, Kind.TOOL))
        settings = self.loaded.settings.servers.get(server_name)
        stated = settings.effect_of(tool_name) if settings is not None else None
        server_spellings = Spellings(server_name, name_alone(server_name, Kind.SERVER))
        return _Found(Subject(server_spellings, tool, effect or stated or "write"), is_known=False)

    def show(self, text: str) -> None:
        """Print without the secrets of the configuration."""
        show(masked(text, self.loaded))

    def flows(self, found: _Found) -> list[str]:
        """What decides beside the rules, a line each."""
        subject, permissions = found.subject, self.loaded.settings.permissions
        return list(flows_to(permissions, subject.server, subject.tool, found.labels))

    def protection(self, found: _Found) -> list[str]:
        """What happens to personal data in a call, a line each."""
        return list(protection_lines(self.loaded.settings.privacy, found.subject.server, found.subject.tool))

    def other_steps(self, found: _Found, session: str | None) -> list[Decision]:
        """What the other steps of the policy decide now, in a session that has read nothing or in this one."""
        if found.target is None:
            return []
        config = LiveConfig(self.loaded.settings)
        flows = FlowRules(config, ToolLabels(config)).decide(found.target, lambda: self.sources(session))
        server, tool = found.target.server.raw_name, found.target
        held_back = self.held_back(server, tool.tool.definition) if isinstance(tool, ToolTarget) else None
        return [it for it in (held_back, flows) if it is not None]

    def sources(self, session: str | None) -> SourceSet:
        """What a session has read, with what is in /workspace.

        Raises:
            CodemodeError: nothing is stored of this session.
        """
        principal = local_principal(self.loaded.settings).principal_id
        if session is not None and (principal, session) not in self.read:
            raise CodemodeError(f"nothing is stored of a session {session!r}; `codemode-server sources` lists them")
        own = () if session is None else self.read[principal, session]
        return SourceSet([*own, *self.read.get((principal, WORKSPACE), ())])

    def explain(
        self, found: _Found, arguments: Mapping[str, Any] | None, others: Sequence[Decision] = ()
    ) -> Explanation:
        return explain(self.rules, found.subject, arguments if found.uri is None else {"uri": found.uri}, others)


def _known(server: Server, name: str, labels: ToolLabels) -> _Found:
    if name.startswith("resources/"):
        found = server.resources.find(name.removeprefix("resources/"), {})
        target = ResourceTarget(server, found, is_linked=False)
        return _Found(
            Subject.of_reading(server, target.spellings), uri=found.uri, target=target, labels=labels.of(target)
        )
    if name.startswith("prompts/"):
        prompt = name.removeprefix("prompts/")
        is_known = any(it.name == prompt for it in server.listing.prompts)
        return _Found(Subject.of_reading(server, prompt_spellings(prompt)), is_known)
    tool = server.tool(name)
    target_of_tool = ToolTarget(server, tool)
    return _Found(Subject.of_tool(server, tool), target=target_of_tool, labels=labels.of(target_of_tool))


def _test(known: KnownTools, file: Path) -> int:
    rows = _table(file)
    differing = 0
    for number, row in enumerate(rows, start=1):
        subject = known.subject(row.call, row.effect)
        found = known.explain(subject, row.args)
        if not subject.is_known:
            announce(_NOT_KNOWN.format(row.call))
        if found.decision is not None and found.decision.kind != row.expect:
            differing += 1
            arguments = one_line(json.dumps(row.args, ensure_ascii=False), _MAX_CHARACTERS) if row.args else ""
            known.show(
                f"{number}. {' '.join(filter(None, [row.call, arguments]))}\n"
                f"   - expected: {row.expect}\n   + decided:  {found.decision.kind}: {found.decision.reason}"
            )
    count = f"{len(rows)} decision{'' if len(rows) == 1 else 's'}"
    show(f"{differing} of {count} differ" if differing else f"{count} as expected")
    return 1 if differing else 0


def _table(file: Path) -> list[ExpectedDecision]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise CodemodeError(f"{file} can't be read: {one_line(str(error), _MAX_CHARACTERS)}") from error
    try:
        return TypeAdapter(list[ExpectedDecision]).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        row, *inner = first["loc"] or ("",)
        place = f"row {row + 1}" if isinstance(row, int) else "the file"
        field = f", {'.'.join(map(str, inner))}" if inner else ""
        raise CodemodeError(
            f"{file}: {place}{field}: {first['msg']}; it is a list of rows like {{call: github/create_issue, "
            "args: {owner: acme}, expect: allow}"
        ) from error


def arguments_of(text: str, name: str) -> dict[str, Any]:
    """Arguments that a person wrote as JSON; `name` is where.

    Raises:
        CodemodeError: it is not a JSON object.
    """
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodemodeError(f"{name} is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise CodemodeError(f'{name} is not a JSON object; write it like {{"owner": "acme"}}')
    return arguments
