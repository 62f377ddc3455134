"""The meta-tool `read_tool`: shows the source of tools and skills, and text files of the workspace."""

from __future__ import annotations

from functools import partial
from typing import Any

from codemode_server.catalog.tree import Tree
from codemode_server.config.settings import Settings
from codemode_server.mcp_server.listing import Listing
from codemode_server.mcp_server.product import Skills, ToolContext
from codemode_server.mcp_server.shortening import fit_text
from codemode_server.mcp_server.tools.registry import (
    READS,
    TEXT_RESULT,
    Answer,
    Description,
    MetaToolSpec,
    ToolArguments,
)

_MAX_TOKENS = 25_000
"""Maximum tokens of one answer; no module of a real tool is as long."""


class ReadToolArguments(ToolArguments):
    path: str


def _describe(settings: Settings, servers: Listing) -> Description:
    path = f"e.g. {servers.example.path}; several separated by commas; :10-40 for lines"
    return Description(
        "Read the Python source of tools of the user's MCP servers, or of skills: signature, types, documentation. "
        "Only needed where search_tools shows too little.",
        {"path": {"description": path}},
    )


async def _read_tool(arguments: ReadToolArguments, context: ToolContext) -> Answer:
    product, config = context.product, context.caller.config
    await product.tools.wait_for_listing()
    refusals = product.refusals.for_principal(context.caller)
    workspace = product.workspace(context.caller.principal)
    sources: list[Any] = []

    def skill(library: Skills, name: str) -> tuple[str, str]:
        found = library.source(context.caller.owner, name)
        sources.extend(found.sources)
        return found.text, found.note

    tree = Tree(
        product.tools.current(),
        refusals.of,
        refusals.asks_first,
        skill=None if product.skills is None else partial(skill, product.skills),
        workflow=None if product.workflows is None else product.workflows.text,
        workspace_file=workspace.read,
    )
    parts = tree.read_tool(arguments.path)
    await product.sources.take_over(context.caller, sources)
    redactor = context.caller.redactor
    text = "\n\n".join(redactor.visible(part.text) for part in parts)
    if any(part.path.startswith("/workspace/") for part in parts):
        remedy = "whole: in a program, or by lines: path:1-100"
        text = fit_text(text, config.settings.limits.output_tokens, remedy=remedy)
    text = fit_text(text, _MAX_TOKENS, remedy="ask for fewer lines: path:1-200")
    return Answer(text, {"text": text})


META_TOOL = MetaToolSpec(
    name="read_tool",
    title="Read tools",
    arguments=ReadToolArguments,
    describe=_describe,
    annotations=READS,
    output_schema=TEXT_RESULT,
    handle=_read_tool,
)
