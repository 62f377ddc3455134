"""The `permissions` command: explains the decision on a call, and tests a table of expected decisions.

No upstream is started: tools are known as of the last run, which says what they are called and what they claim to do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
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
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError, UnknownTool
from codemode_server.first_listing import LastRun, state_folder
from codemode_server.gateway.policy.explanation import Explanation, explain
from codemode_server.gateway.policy.flows import flows_to
from codemode_server.gateway.policy.labels import ToolLabels
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.rules import PermissionRules, Subject
from codemode_server.gateway.targets import ResourceTarget, prompt_spellings
from codemode_server.setting_types import RuleEffect, Section
from codemode_server.storage.database import FILE_NAME
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
    one.add_argument("--effect", choices=["read", "write", "destructive"], help="for a tool that is not known")
    one.add_argument("--json", action="store_true", help="print JSON")
    table = actions.add_parser("test", help="compare the decisions on a table of calls; exit code 1 if one differs")
    add_config(table)
    table.add_argument("file", type=Path, metavar="FILE", help="YAML: a list of {call, args, expect}")


def run(parsed: argparse.Namespace) -> int:
    known = KnownTools.of(load(config_file(parsed), require_trust=False, resolve=False))
    if parsed.action == "test":
        return _test(known, parsed.file)
    subject = known.subject(parsed.call, parsed.effect)
    arguments = None if parsed.args is None else _arguments(parsed.args)
    found = known.explain(subject, arguments)
    flows = known.flows(subject)
    if parsed.json:
        about = {"call": parsed.call, "is_known": subject.is_known, "as_of": "last run"}
        labels = {"labels": sorted(subject.labels), "flows": flows}
        known.show(json.dumps(about | found.as_json() | labels, indent=2))
    else:
        lines = [found.text, f"labels: {', '.join(sorted(subject.labels)) or 'none'}", *flows]
        known.show("\n".join(lines if subject.is_known else [*lines, _NOT_KNOWN.format(parsed.call)]))
    return 0


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
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The permissions, and the tools as of the last run."""

    loaded: LoadedSettings
    catalog: Catalog
    rules: PermissionRules

    @classmethod
    def of(cls, loaded: LoadedSettings) -> KnownTools:
        catalog = Catalog.build([])
        if (state_folder(loaded.settings) / FILE_NAME).exists():
            last_run = LastRun.read(loaded)
            catalog = last_run.catalog
            last_run.thread.close()
            last_run.database.close()
        return cls(loaded, catalog, PermissionRules(loaded.settings.permissions))

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

    def explain(self, found: _Found, arguments: Mapping[str, Any] | None) -> Explanation:
        return explain(self.rules, found.subject, arguments if found.uri is None else {"uri": found.uri})


def _known(server: Server, name: str, labels: ToolLabels) -> _Found:
    if name.startswith("resources/"):
        found = server.resources.find(name.removeprefix("resources/"), {})
        target = ResourceTarget(server, found, is_linked=False)
        return _Found(Subject.of_reading(server, target.spellings), uri=found.uri, labels=labels.of(target))
    if name.startswith("prompts/"):
        prompt = name.removeprefix("prompts/")
        is_known = any(it.name == prompt for it in server.listing.prompts)
        return _Found(Subject.of_reading(server, prompt_spellings(prompt)), is_known)
    tool = server.tool(name)
    return _Found(Subject.of_tool(server, tool), labels=labels.of_tool(server, tool))


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


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodemodeError(f"--args is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise CodemodeError('--args is not a JSON object; write it like {"owner": "acme"}')
    return arguments
