"""The `workflow` command: lists workflows, checks them against the tools, and runs one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from codemode_server import logs
from codemode_server.app import App
from codemode_server.cli.arguments import add_config, add_wait, config_file
from codemode_server.cli.product import COMMAND_SESSION, ended, inspected
from codemode_server.cli.terminal import load_with_warnings, show
from codemode_server.cli.terminal_host import terminal_host
from codemode_server.config import LoadedSettings
from codemode_server.config.live import RequestContext
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.executions.preflight.preflight import Checked, SavedCode
from codemode_server.redaction import Redactor
from codemode_server.workflows.checking import Problem, check_workflow
from codemode_server.workflows.compiling import CompiledWorkflow
from codemode_server.workflows.folder import Workflows
from codemode_server.workflows.inputs import WorkflowInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
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
        add_config(action)
        action.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: argparse.Namespace) -> int:
    loaded, as_json = load_with_warnings(config_file(parsed)), getattr(parsed, "json", False)
    workflows = Workflows(Path(loaded.settings.state.workflows))
    match parsed.action:
        case "check":
            names = [parsed.name] if parsed.name else workflows.names()
            problems = anyio.run(partial(_check, loaded, workflows, names, parsed.wait))
            page, is_success = _checked_page(names, problems, as_json=as_json), not any(it.is_error for it in problems)
        case "run":
            compiled = workflows.compiled(parsed.name)
            code = _program(compiled, inputs_of(compiled, parsed.input))
            page, is_success = anyio.run(partial(_run, loaded, compiled, code, parsed.wait, as_json=as_json))
        case _:
            page, is_success = _list_page(workflows, as_json=as_json), True
    show(Redactor(loaded.secrets).text(page))
    return 0 if is_success else 1


def inputs_of(compiled: CompiledWorkflow, given: list[str]) -> dict[str, Any]:
    """The inputs of `--input name=value`, by their types.

    Raises:
        CodemodeError: one is unknown, missing, or of another type.
    """
    known, found = {it.name: it for it in compiled.inputs}, dict[str, Any]()
    for one in given:
        name, sign, text = one.partition("=")
        if not sign or name not in known:
            names = ", ".join(known) or "none"
            raise CodemodeError(f"--input {one.partition('=')[0]!r}: the inputs of {compiled.name} are {names}")
        found[name] = _input(known[name], text)
    if missing := [it.name for it in compiled.inputs if it.is_required and it.name not in found]:
        options = " ".join(f"--input {name}=…" for name in missing)
        raise CodemodeError(f"{compiled.name} needs {', '.join(missing)}; add {options}")
    return found


def _input(one: WorkflowInput, text: str) -> Any:
    if one.type == "text":
        return text
    if one.type == "boolean" and text.casefold() in ("yes", "no"):
        return text.casefold() == "yes"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CodemodeError(f"--input {one.name}: must be of the type {one.type}, written as JSON") from None


def _program(compiled: CompiledWorkflow, inputs: dict[str, Any]) -> str:
    """The module and a call of its function; the inputs are one text, and never code."""
    return f"{compiled.source}\n\nimport json as _json\n{compiled.name}(**_json.loads({json.dumps(inputs)!r}))\n"


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
                problems += await check_workflow(one, _check_of(app), app.catalog())
    return problems


def _check_of(app: App) -> Callable[[str], Awaitable[Checked]]:
    """The check of programs, under the permissions of whoever runs the command, and with the skills there are."""
    context = RequestContext.of(COMMAND_SESSION, app.config)
    saved = SavedCode(why_no_skill=partial(app.skills.why_missing, context.owner))
    return partial(app.preflight.check, saved=saved, refusal_of=app.refusals.for_principal(context).of)


async def _run(
    loaded: LoadedSettings, compiled: CompiledWorkflow, code: str, wait: float, *, as_json: bool
) -> tuple[str, bool]:
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        host = terminal_host()
        app.connect(host.features)
        await app.pool.wait_settled(wait)
        await app.tools.prepare()
        problems = await check_workflow(compiled, _check_of(app), app.catalog())
        for problem in problems:
            print(f"{'' if problem.is_error else 'warning: '}{problem.text}", file=sys.stderr)
        if any(it.is_error for it in problems):
            return "not run", False
        execution = app.executions.start(code, RequestContext.of(COMMAND_SESSION, app.config), host=host)
        return await ended(app, execution, as_json=as_json)


def _checked_page(names: list[str], problems: list[Problem], *, as_json: bool) -> str:
    if as_json:
        found = [{"workflow": it.workflow, "error": it.is_error, "message": it.text} for it in problems]
        return json.dumps(found, indent=2)
    lines = [f"{'' if it.is_error else 'warning: '}{it.text}" for it in problems]
    sound = [name for name in names if not any(it.workflow == name for it in problems)]
    return "\n".join([*lines, *(f"{name}: ok" for name in sound)]) or "there are no workflows"


def _list_page(workflows: Workflows, *, as_json: bool) -> str:
    entries = workflows.entries()
    if as_json:
        return json.dumps(
            [{"name": it.name, "signature": it.signature, "summary": it.summary} for it in entries], indent=2
        )
    lines = [line for it in entries for line in (it.signature or it.name, f"    {it.summary}" if it.summary else "")]
    return "\n".join(filter(None, lines)) or f"no workflows in {workflows.folder}"
