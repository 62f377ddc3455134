"""Calls a direct tool for the host: as an execution of its own, through the same gateway as the calls of programs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from codemode_server.domain.errors import MetaToolError
from codemode_server.front.direct_results import direct_answer
from codemode_server.front.direct_tools import is_exposed
from codemode_server.front.tools.registry import Answer, ToolContext
from codemode_server.front.waiting import host_input, resumed, wait_for
from codemode_server.off_loop import is_large, run_sized
from codemode_server.search.usage_store import ToolName
from codemode_server.text import clean_line


async def call_direct_tool(
    server: str, tool: str, arguments: dict[str, Any], context: ToolContext, lone_tools: Collection[ToolName]
) -> Answer:
    """Call the tool of these raw names, which the session was offered.

    Raises:
        MetaToolError: it is not offered any more.
    """
    _require_exposed(server, tool, context, lone_tools)
    config, executions = context.request.config, context.services.executions
    execution = resumed(context) or executions.start_call(
        server, tool, arguments, context.request, host_input(context.host)
    )
    if (asked := await wait_for(execution, context)) is not None:
        return asked
    result = execution.direct_call.result if execution.direct_call else {}
    limits, redactor = config.settings.limits, context.request.redactor
    answer = await run_sized(is_large(result), direct_answer, execution, limits, redactor)
    return replace(answer, execution=execution)


def _require_exposed(server: str, tool: str, context: ToolContext, lone_tools: Collection[ToolName]) -> None:
    """The session knows the tool from an earlier listing; the configuration or the upstream may have changed since."""
    own = context.request.config.settings.servers.get(server)
    found = next((it for it in context.services.catalog().servers if it.raw_name == server), None)
    offered = next((it for it in found.tools if it.raw_name == tool), None) if found else None
    redact = context.request.redactor.text
    title = redact(clean_line(f"{server}.{tool}", 200))
    if own is None or not own.may_have_direct_tools:
        raise MetaToolError(f"{title}: the edited upstream.yaml no longer offers it as a tool; use execute_code")
    if found is None or offered is None:
        raise MetaToolError(f"{title}: the server no longer has this tool; search_tools finds what it has now")
    if not is_exposed(own, found, offered, lone_tools):
        raise MetaToolError(f"{title}: the edited upstream.yaml no longer offers it as a tool; use execute_code")
