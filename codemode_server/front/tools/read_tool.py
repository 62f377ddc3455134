"""The meta-tool `read_tool`: shows the source of tools and skills, and text files of the workspace."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate

from codemode_server.front.listing import Listing
from codemode_server.front.tools.registry import (
    READS,
    TEXT_RESULT,
    Answer,
    Description,
    MetaToolSpec,
    ToolArguments,
    ToolContext,
)
from codemode_server.settings import Settings
from codemode_server.tokens import estimate_tokens

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
    from codemode_server.catalog.tree import read_tool
    from codemode_server.front.shortening import fit_text

    services, config = context.services, context.request.config
    await services.wait_for_listing()
    workspace = services.workspaces(context.request.principal)
    reading = read_tool(services.catalog(), arguments.path, skill=services.skills.source, workspace=workspace.read)
    # A program can write any value that it was given into /workspace.
    text = config.redactor.visible(reading.text)
    if any(part.path.startswith("/workspace/") for part in reading.parts):
        text = _fit_workspace_text(text, config.settings.limits.output_tokens)
    text = fit_text(text, _MAX_TOKENS, remedy="ask for fewer lines: path:1-200")
    return Answer(text, {"text": text})


def _fit_workspace_text(text: str, budget_tokens: int) -> str:
    """Text of workspace files, cut to the budget for a program's output; a cut says how to read the rest."""
    from codemode_server.front.shortening import CHARACTERS_PER_TOKEN, fit_text

    tokens = max(1, estimate_tokens(text))
    room = min(len(text) * budget_tokens / tokens, budget_tokens * CHARACTERS_PER_TOKEN)
    lengths = [len(line) + 1 for line in text.split("\n")]
    fitting = bisect(list(accumulate(lengths)), room * 0.8) - 1  # without the line that names the file
    by_lines = f", or by lines: path:1-{fitting}" if fitting > 0 and max(lengths) < room else ""
    return fit_text(text, budget_tokens, remedy=f"whole: in a program{by_lines}")


META_TOOL = MetaToolSpec(
    name="read_tool",
    title="Read tools",
    arguments=ReadToolArguments,
    describe=_describe,
    annotations=READS,
    output_schema=TEXT_RESULT,
    handle=_read_tool,
)
