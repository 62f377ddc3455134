"""Gets a prompt for the host: as an execution of its own, through the same gateway as the calls of programs."""

from __future__ import annotations

from typing import Any

from codemode_server.domain.errors import MetaToolError
from codemode_server.front.prompts import check_arguments, check_size, prompt_named, prompt_result
from codemode_server.front.tools.registry import ToolContext
from codemode_server.front.waiting import wait_for
from codemode_server.off_loop import is_large, run_sized
from codemode_server.redaction import Redactor


async def get_prompt(name: str, arguments: dict[str, str], context: ToolContext) -> Any:
    """The messages of the prompt of this name, as mcp's `GetPromptResult`.

    Raises:
        MetaToolError: there is none, the permissions or its server refuse it, or its messages can't be passed on.
    """
    services = context.services
    await services.wait_for_listing()
    check_arguments(name, arguments)
    server, prompt = prompt_named(services.catalog(), name)
    execution = services.executions.start_prompt(server.raw_name, prompt.name, {**arguments}, context.request)
    await wait_for(execution, context)
    if execution.outcome.error is not None:
        raise MetaToolError(context.request.redactor.visible(execution.outcome.error.message))
    result = execution.direct_call.result if execution.direct_call else {}
    return await run_sized(is_large(result), _passed_on, name, result, context.request.redactor)


def _passed_on(name: str, result: dict[str, Any], redactor: Redactor) -> Any:
    check_size(name, result)
    return prompt_result(name, redactor.value(result))
