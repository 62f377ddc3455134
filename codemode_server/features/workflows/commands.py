"""The `workflow` command: lists workflows, checks them against the tools, and runs one."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio
import anyio.to_thread

from codemode_server.app import App
from codemode_server.cli import logs
from codemode_server.cli.arguments import add_wait
from codemode_server.cli.product import COMMAND_SESSION, ended, inspected
from codemode_server.cli.terminal import load_with_warnings, show, terminal
from codemode_server.config import LoadedSettings
from codemode_server.config.live import Caller
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.domain.input_requests import NO_HOST_INPUT, Feature, HostInput, InputRefused, InputRequest
from codemode_server.executions.preflight.preflight import CheckContext
from codemode_server.features.workflows.compiling import CompiledWorkflow, Workflows
from codemode_server.features.workflows.steps import PERSON
from codemode_server.support.text import escaped, escaped_lines

_HELP = "(an empty line gives the default in brackets, or leaves the field out; `!` declines)"
_NUMBERS = {"integer": int, "number": float}
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the workflows; the default")
    checking = actions.add_parser("check", help="check one, or all, against the tools; exit code 1 if one has mistakes")
    checking.add_argument("name", nargs="?", metavar="NAME")
    running = actions.add_parser("run", help="run one")
    running.add_argument("name", metavar="NAME")
    running.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE", help="may be given several times; JSON for lists"
    )
    for action in (checking, running):
        add_wait(action)
    for action in (listing, checking, running):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded, as_json = load_with_warnings(parsed), parsed.json
    workflows = Workflows(Path(loaded.settings.state.workflows))
    match parsed.action:
        case "check":
            names = [parsed.name] if parsed.name else workflows.names()
            problems = anyio.run(_check, loaded, workflows, names, parsed.wait)
            page, is_success = _checked_page(names, problems, as_json=as_json), not any(it.is_error for it in problems)
        case "run":
            compiled = workflows.compiled(parsed.name)
            inputs = json.dumps(inputs_of(compiled, parsed.input))  # one text, and never code
            code = f"{compiled.source}\n\nimport json as _json\n{compiled.name}(**_json.loads({inputs!r}))\n"
            page, is_success = anyio.run(partial(_run, loaded, compiled, code, parsed.wait, as_json=as_json))
        case _:
            page, is_success = _list_page(workflows, as_json=as_json), True
    show(loaded.redactor.text(page))
    return 0 if is_success else 1


def inputs_of(compiled: CompiledWorkflow, given: list[str]) -> dict[str, Any]:
    known, inputs = {it.name: it.type for it in compiled.inputs}, dict[str, Any]()
    for one in given:
        name, sign, text = one.partition("=")
        if not sign or name not in known:
            names = ", ".join(known) or "none"
            raise CodemodeError(f"--input {name!r}: the inputs of {compiled.name} are {names}")
        try:
            inputs[name] = text if known[name] == "text" else json.loads(text)
        except (ValueError, RecursionError):
            raise CodemodeError(f"--input {name}: must be of the type {known[name]}, written as JSON") from None
    if missing := [it.name for it in compiled.inputs if it.is_required and it.name not in inputs]:
        options = " ".join(f"--input {name}=…" for name in missing)
        raise CodemodeError(f"{compiled.name} needs {', '.join(missing)}; add {options}")
    return inputs


@dataclass(frozen=True, slots=True)
class Problem:
    workflow: str
    text: str
    is_error: bool = True

    @property
    def line(self) -> str:
        return f"{'' if self.is_error else 'warning: '}{self.text}"


async def _check(loaded: LoadedSettings, workflows: Workflows, names: list[str], wait: float) -> list[Problem]:
    problems: list[Problem] = []
    compiled: list[CompiledWorkflow] = []
    for name in names:
        try:
            compiled.append(workflows.compiled(name))
        except SettingsError as error:
            problems += [Problem(name, line) for line in str(error).splitlines()]
    if compiled:
        async with inspected(loaded, wait) as app:
            for one in compiled:
                problems += await _problems(app, one)
    return problems


async def _problems(app: App, compiled: CompiledWorkflow) -> list[Problem]:
    """Certain and possible errors of the program that it becomes, under the permissions of whoever runs the command."""
    if f"servers.{PERSON}" in compiled.modules and PERSON not in app.catalog().by_name:
        message = f"`ask` needs a server named {PERSON!r}; add `{PERSON}: {{questions: true}}` under `servers:`"
        return [Problem(compiled.name, f"{compiled.file}: {message}")]
    request = Caller.of(COMMAND_SESSION, app.config)
    why_no_skill = None if app.skills is None else partial(app.skills.why_missing, request.owner)
    context = CheckContext(refusal_of=app.refusals.for_principal(request).of, why_no_skill=why_no_skill)
    checked = await app.preflight.check(compiled.check_source, context)
    found: list[Problem] = []
    for findings, is_error in ((checked.errors, True), (checked.warnings, False)):
        for one in findings:
            line = compiled.check_lines.get(one.line)
            place = f"{compiled.file}:{line}" if line else compiled.file
            found.append(Problem(compiled.name, f"{place}: {one.message}", is_error))
    return found


async def _run(
    loaded: LoadedSettings, compiled: CompiledWorkflow, code: str, wait: float, *, as_json: bool
) -> tuple[str, bool]:
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        host = terminal_host()
        app.connect(host.features)
        await app.pool.wait_settled(wait)
        await app.tools.prepare()
        problems = await _problems(app, compiled)
        for problem in problems:
            print(problem.line, file=sys.stderr)
        if any(it.is_error for it in problems):
            return "not run", False
        execution = app.executions.start(code, Caller.of(COMMAND_SESSION, app.config), host=host)
        return await ended(app, execution, as_json=as_json)


def _checked_page(names: list[str], problems: list[Problem], *, as_json: bool) -> str:
    if as_json:
        found = [{"workflow": it.workflow, "error": it.is_error, "message": it.text} for it in problems]
        return json.dumps(found, indent=2)
    sound = [name for name in names if not any(it.workflow == name for it in problems)]
    return "\n".join([*(it.line for it in problems), *(f"{name}: ok" for name in sound)]) or "there are no workflows"


def _list_page(workflows: Workflows, *, as_json: bool) -> str:
    entries = workflows.entries()
    if as_json:
        shown = [{"name": it.name, "signature": it.signature, "summary": it.summary} for it in entries]
        return json.dumps(shown, indent=2)
    lines = [line for it in entries for line in (it.signature or it.name, f"    {it.summary}" if it.summary else "")]
    return "\n".join(filter(None, lines)) or f"no workflows in {workflows.folder}"


def terminal_host() -> HostInput:
    try:
        with terminal():
            return _TerminalHost()
    except CodemodeError:
        return NO_HOST_INPUT


class _TerminalHost:
    features: frozenset[Feature] = frozenset({Feature.ELICITATION})

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        if request.feature is not Feature.ELICITATION:
            raise InputRefused("a terminal shows forms only")
        async with self._lock:
            return await anyio.to_thread.run_sync(_answer, dict(request.params), abandon_on_cancel=True)


def _answer(params: dict[str, Any]) -> dict[str, Any]:
    schema = params["requestedSchema"]
    required = schema.get("required", [])
    with terminal() as (read, write):
        print(f"\n{escaped_lines(str(params['message']))}\n{_HELP}", file=write)
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            while True:
                given = _ask(name, field, read, write)
                if given in ("", "!") and (given == "!" or name in required):
                    if given == "!":
                        return {"action": "decline"}
                    print("  is needed", file=write)
                    continue
                try:
                    if given:
                        content[name] = _value(field, given)
                    break
                except ValueError:
                    kind = field.get("type")
                    print(f"  must be {'y or n' if kind == 'boolean' else f'of the type {kind}'}", file=write)
    return {"action": "accept", "content": content}


def _ask(name: str, field: dict[str, Any], read: TextIO, write: TextIO) -> str:
    options = _options(field)
    print(f"{escaped(str(field.get('title') or name))}", file=write)
    if description := field.get("description"):
        print(f"  {escaped(str(description))}", file=write)
    for number, option in enumerate(options, start=1):
        print(f"  {number}. {escaped(option)}", file=write)
    default = field.get("default")
    if field.get("type") == "boolean":
        print("  y/n", file=write)
        default = default if default is None else "y" if default else "n"
    print(f"{'' if default is None else f'[{escaped(str(default))}] '}> ", end="", file=write, flush=True)
    line = read.readline()
    if not line:
        return "!"
    return line.strip() or ("" if default is None else str(default))


def _value(field: dict[str, Any], given: str) -> Any:
    options, kind = _options(field), field.get("type")
    if options:
        return options[int(given) - 1] if given.isdigit() and 0 < int(given) <= len(options) else given
    if kind == "boolean":
        if given.casefold() not in (*_YES, *_NO):
            raise ValueError
        return given.casefold() in _YES
    return _NUMBERS[kind](given) if kind in _NUMBERS else given


def _options(field: dict[str, Any]) -> list[str]:
    choices = field.get("enum") or [it.get("const") for it in field.get("oneOf", [])]
    return [str(it) for it in choices]
