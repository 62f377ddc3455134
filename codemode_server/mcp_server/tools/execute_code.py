"""The meta-tool `execute_code`: runs a Python program in a sandbox and reports its progress to the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from codemode_server.config.settings import Settings
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import MAX_DESCRIPTION_CHARACTERS
from codemode_server.domain.ids import ExecutionId
from codemode_server.mcp_server.listing import Example, Listing
from codemode_server.mcp_server.product import ToolContext
from codemode_server.mcp_server.tools.registry import Answer, Description, MetaToolSpec, ToolArguments
from codemode_server.sandbox.packages.installed import names_of
from codemode_server.support.off_loop import LARGE_BYTES, is_large, run_sized
from codemode_server.support.text import clean_line, joined_within

MAX_META_CHARACTERS = 500_000
"""The maximum that Claude Code lets a tool ask for: `limits` cut a long answer, and the host doesn't cut it again."""
_MAX_PACKAGES_CHARACTERS = 400
_LINES = {"type": "array", "items": {"type": "string"}}
_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["succeeded", "failed", "limit_exceeded", "cancelled", "sandbox_failed", "waiting"]},
        "execution_id": {"type": "string"},
        "isolation": {"enum": ["microvm", "wasm"]},
        "value": {},
        "value_is_text": {"type": "boolean"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "error": {"type": "object"},
        "calls": {"type": "array", "items": {"type": "object"}},
        "plan": {"type": "object"},
        "awaited": _LINES,
        "unmarked_errors": _LINES,
        "cut": _LINES,
        "shown": _LINES,
        "hints": _LINES,
        "warnings": _LINES,
        "notes": _LINES,
    },
    "required": ["status", "execution_id", "calls"],
}


class ExecuteCodeArguments(ToolArguments):
    code: Annotated[str | None, Field(min_length=1)] = None
    description: str | None = None
    resume: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    dry_run: bool | None = None
    apply: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    timeout: Annotated[float | None, Field(gt=0)] = None


def _describe(settings: Settings, servers: Listing) -> Description:
    text = (
        "Run a Python 3 program that calls tools of the user's MCP servers; get back what it prints and the value of "
        "its last expression."
    )
    if servers.tools:
        which = "others, and arguments not shown" if servers.has_tools else "the tools of these servers"
        text += f" Import tools as `from servers.<server> import <tool>`; search_tools finds {which}:\n{servers.tools}"
    descriptions = {
        "code": _rules(settings, servers.example),
        "resume": "In place of code: id of an execution that is waiting or did not end, to go on with it",
        "dry_run": "Hold back calls that may change something; get the plan of them",
        "apply": "In place of code: id of a dry run, to carry out",
        "timeout": "Maximum run time in seconds, excluding time spent waiting for servers",
    }
    options: dict[str, dict[str, Any]] = {name: {"description": it} for name, it in descriptions.items()}
    options["timeout"]["maximum"] = settings.limits.wall_seconds
    return Description(text, options)


def _rules(settings: Settings, example: Example) -> str:
    limits, packages = settings.limits, joined_within(names_of(settings.sandbox.packages), _MAX_PACKAGES_CHARACTERS)
    modules = f"Standard library and the packages {packages}" if packages else "Standard library"
    return f"""\
Call tools with keyword arguments; they return plain Python values, a failed call raises ToolError. `await` and \
asyncio.gather work; tool.map(items) calls for each, tool.pages(...) gives the items of all pages (more in \
servers/__init__.py).
{modules} only; no network, no host files. Each program starts fresh in /workspace: only files there and results \
stay. At most {limits.calls:,} calls, {limits.memory_mb} MB, {limits.wall_seconds:g} s of run time plus \
{limits.upstream_seconds:g} s waiting for servers.
from codemode import show, results, checkpoint: show(file) lets you see an image or file; results["x…"] is \
what an earlier program returned, whole; \
checkpoint.save(step=..., context=...) and checkpoint.load() carry a task over to later sessions. A file written to \
/skills/<name>.py is a module for later programs: from skills.<name> import <name>. Example:
{example.program}"""


async def _execute_code(arguments: ExecuteCodeArguments, context: ToolContext) -> Answer:
    from codemode_server.mcp_server.blocks import program_answer
    from codemode_server.mcp_server.waiting import host_input, resumed, wait_for

    config, executions = context.caller.config, context.product.executions
    limits, timeout_s = config.settings.limits, arguments.timeout
    is_too_long = timeout_s is not None and timeout_s > limits.wall_seconds
    timeout_s = None if is_too_long else timeout_s
    if [arguments.code, arguments.resume, arguments.apply].count(None) != 2:
        raise MetaToolError(
            "execute_code: give either 'code', or 'resume' with the id of an execution, or 'apply' with the id of a "
            "dry run; to go on with other code, give 'code' alone: it can use results[\"x…/calls/N\"]"
        )
    if arguments.dry_run and arguments.code is None:
        raise MetaToolError("execute_code: 'dry_run' goes with 'code' only")
    reruns, host = context.product.reruns, host_input(context.host)
    if reruns is None and arguments.code is None:
        raise MetaToolError("this codemode-server runs no program again; give 'code'")
    execution = resumed(context)
    if execution is None and arguments.resume is not None and reruns is not None:
        execution = await reruns.resume(ExecutionId(arguments.resume), context.caller, timeout_s, host)
    elif execution is None and arguments.apply is not None and reruns is not None:
        execution = await reruns.apply(ExecutionId(arguments.apply), context.caller, timeout_s, host)
    elif execution is None and arguments.code is not None:
        execution = executions.start(
            await _program(arguments.code),
            context.caller,
            timeout_s=timeout_s,
            host=host,
            is_dry_run=bool(arguments.dry_run),
            description=clean_line(arguments.description or "", MAX_DESCRIPTION_CHARACTERS),
        )
    assert execution is not None  # noqa: S101 - one of them is given
    if is_too_long:
        at_most = (
            f"timeout is at most {limits.wall_seconds:g} s, which held here; the user can raise limits.wall_seconds"
        )
        execution.calls.messages.append(at_most)
    if (asked := await wait_for(execution, context)) is not None:
        return asked
    outcome = execution.outcome
    is_long = len(outcome.stdout) + len(outcome.stderr) > LARGE_BYTES or is_large(outcome.value)
    answer = await run_sized(is_long, program_answer, execution, limits, context.caller.redactor)
    return replace(answer, execution=execution)


async def _program(text: str) -> str:
    """The program, out of what a model may have put around it."""
    from codemode_server.executions.preflight.preflight import LARGE_CHARACTERS
    from codemode_server.executions.program_text import as_python, may_hold_program

    return await run_sized(len(text) > LARGE_CHARACTERS, as_python, text) if may_hold_program(text) else text


META_TOOL = MetaToolSpec(
    name="execute_code",
    title="Run a Python program",
    arguments=ExecuteCodeArguments,
    describe=_describe,
    annotations={"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
    output_schema=_RESULT,
    handle=_execute_code,
    meta={"anthropic/maxResultSizeChars": MAX_META_CHARACTERS},
    unbounded_arguments=frozenset({"code"}),
)
