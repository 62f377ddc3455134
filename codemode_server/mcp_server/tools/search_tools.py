"""The meta-tool `search_tools`: finds tools and skills by what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from codemode_server.config.settings import Settings
from codemode_server.domain.tools import EFFECTS_OF_SETTINGS
from codemode_server.mcp_server.listing import Listing
from codemode_server.mcp_server.product import ToolContext
from codemode_server.mcp_server.tools.registry import (
    READS,
    Answer,
    Description,
    MetaToolSpec,
    ToolArguments,
)

_ITS_WORD = BeforeValidator(lambda given: EFFECTS_OF_SETTINGS.get(given, given) if isinstance(given, str) else given)


class SearchToolsArguments(ToolArguments):
    query: Annotated[str, Field(description="What the tool should do, in English; empty lists by name")] = ""
    detail_level: Literal["name_only", "with_description", "full", "scaffold"] = "with_description"
    server: str | None = None
    effect: Annotated[Literal["reads", "writes", "destroys"] | None, _ITS_WORD] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 10


def _describe(settings: Settings, servers: Listing) -> Description:
    named = f" ({servers.names})" if servers.names else ""
    return Description(
        f"Find tools of the user's MCP servers{named} by what they do, best first, with the line that imports each "
        "and its signature. Then call them in execute_code. Finds skills as well."
    )


async def _search_tools(arguments: SearchToolsArguments, context: ToolContext) -> Answer:

    product = context.product
    found = await product.search.search(
        context.caller,
        arguments.query,
        arguments.detail_level,
        arguments.server,
        arguments.limit,
        arguments.effect,
    )
    names = ", ".join(product.tools.current().connecting)
    connecting = f"still connecting: {names}; search again for their tools" if names else ""
    if names and found.doubt:  # first, since what was asked for may be there
        found, connecting = replace(found, doubt=f"{connecting}; so far {found.doubt}"), ""
    note = "\n".join(part for part in (found.doubt, found.note, connecting) if part)
    redactor = context.caller.redactor
    tools = [{key: redactor.value(value) for key, value in record.items()} for record in found.as_json()]
    content: dict[str, Any] = {"tools": tools} | ({"note": redactor.text(note)} if note else {})
    text = "\n".join(part for part in (found.text, connecting) if part)
    return Answer(redactor.text(text), content)


META_TOOL = MetaToolSpec(
    name="search_tools",
    title="Search tools",
    arguments=SearchToolsArguments,
    describe=_describe,
    annotations=READS,
    output_schema={
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}, "note": {"type": "string"}},
        "required": ["tools"],
    },
    handle=_search_tools,
    shows_failure=True,
)
