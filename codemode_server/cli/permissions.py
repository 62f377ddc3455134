"""The `permissions` command: explains the decision on a call, writes a rule that allows calls, and tests a table of
expected decisions. Tools are known as of the last run. `explain` also regards changed tools and what sessions have
read; `test` regards the rules alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from codemode_server.calls.policy.explanation import explain
from codemode_server.calls.policy.rules import PermissionRules, Rule, Subject
from codemode_server.cli import edited_config
from codemode_server.cli.terminal import announce, configuration, person_confirms, show
from codemode_server.config.loading import load_place
from codemode_server.config.settings import PermissionRule
from codemode_server.domain.errors import CodemodeError
from codemode_server.records.known_tools import KnownTools, arguments_of
from codemode_server.support.setting_types import RuleEffect, Section
from codemode_server.support.text import counted, first_lines, one_line

_MAX_CHARACTERS = 200
_MAX_LISTED = 30


class ExpectedDecision(Section):
    call: str = Field(min_length=1)
    args: dict[str, Any] = Field(default={})
    expect: Literal["allow", "deny", "ask"]
    effect: RuleEffect | None = None
    """For a tool that is not known; default: what the configuration says, else `write`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("explain", help="print which rule decides on a call, and why")
    one.add_argument("call", metavar="SERVER/TOOL")
    one.add_argument("--args", metavar="JSON", help="the arguments; without them, all that may be decided")
    one.add_argument("--session", metavar="ID", help="after what this session has read; `codemode-server sources`")
    one.add_argument("--effect", choices=["read", "write", "destructive"], help="for a tool that is not known")
    one.add_argument("--json", action="store_true", help="print JSON")
    allowing = actions.add_parser("allow", help="add a rule that allows calls; asks you")
    allowing.add_argument("pattern", metavar="SERVER/TOOL", help="as `github/get_*`, in quotes")
    table = actions.add_parser("test", help="compare the decisions on a table of calls; exit code 1 if one differs")
    table.add_argument("file", type=Path, metavar="FILE", help="YAML: a list of {call, args, expect}")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    if loaded.settings.state.database_password is not None:  # perhaps a reference
        loaded = configuration(parsed)
    with KnownTools.of(loaded) as known:
        if parsed.action == "allow":
            return _allow(known, parsed)
        return _test(known, parsed.file) if parsed.action == "test" else _explain(known, parsed)


def _allow(known: KnownTools, parsed: argparse.Namespace) -> int:
    try:
        rule = PermissionRule(allow=parsed.pattern)
    except ValidationError as error:
        raise CodemodeError(f"{parsed.pattern!r} {error.errors()[0]['msg'].removeprefix('Value error, ')}") from error
    place = edited_config.located(parsed)
    subjects = [
        (f"{server.raw_name}/{tool.raw_name}", Subject.of_tool(server, tool))
        for server in known.catalog.servers
        for tool in server.tools
    ]
    meant = [(name, it) for name, it in subjects if not Rule(0, rule).why_never(it)]
    page = first_lines([f"  {name} ({it.effect})" for name, it in meant], _MAX_LISTED, "  … and {:,} more")
    head = f"{rule.text} means {counted(len(meant), 'tool')} of the last run, and those that are listed later"
    if not person_confirms("\n".join([head, *page]), f"Add this rule to {place.path}?"):
        show("nothing was changed")
        return 1
    with edited_config.locked(place) as file:
        permissions = load_place(place, require_trust=False, resolve=False).settings.permissions
        index = PermissionRules(permissions).place_for("allow", rule.pattern)
        file.text.insert_rule(index, {"allow": rule.pattern})
        file.save()
    rules = PermissionRules(load_place(place, require_trust=False, resolve=False).settings.permissions)
    show(f"added to {place.path} as rule {index + 1}: {rule.text}; a running codemode-server notices in seconds")
    for name, it in meant:
        if (decided := explain(rules, it, None).decision) is None or decided.kind != "allow":
            why = f"{decided.kind}: {decided.reason}" if decided else "depends on the arguments"
            show(one_line(f"not for {name}, {why}", 2 * _MAX_CHARACTERS))
    return 0


def _explain(known: KnownTools, parsed: argparse.Namespace) -> int:
    arguments = None if parsed.args is None else arguments_of(parsed.args, "--args")
    call = parsed.call if "/" in parsed.call else parsed.call.replace(".", "/", 1)
    named = known.subject(call, parsed.effect)
    server = call.partition("/")[0]
    is_missing = server in known.catalog.by_name and not named.is_known
    code = 2 if is_missing else 0 if known.has_server(server) else 1
    if not parsed.json:
        show(known.explanation(call, arguments, parsed.effect, parsed.session))
        return code
    decided = known.explain(named, arguments, known.other_steps(named, parsed.session))
    about = {"call": call, "is_known": named.is_known, "as_of": "last run"}
    show(known.loaded.redactor.text(json.dumps(about | decided.as_json() | known.about(named), indent=2)))
    return code


def _test(known: KnownTools, file: Path) -> int:
    rows = _table(file)
    differing = 0
    for number, row in enumerate(rows, start=1):
        subject = known.subject(row.call, row.effect)
        found = known.explain(subject, row.args)
        if not subject.is_known:
            announce(known.not_known(row.call))
        if found.decision is not None and found.decision.kind != row.expect:
            differing += 1
            arguments = one_line(json.dumps(row.args, ensure_ascii=False), _MAX_CHARACTERS) if row.args else ""
            page = (
                f"{number}. {' '.join(filter(None, [row.call, arguments]))}\n"
                f"   - expected: {row.expect}\n   + decided:  {found.decision.kind}: {found.decision.reason}"
            )
            show(known.loaded.redactor.text(page))
    count = counted(len(rows), "decision")
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
