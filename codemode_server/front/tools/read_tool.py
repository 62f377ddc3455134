"""The meta-tool `read_tool`: shows the source of tools and skills, and text files of the workspace."""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

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
from codemode_server.redaction import Redactor
from codemode_server.settings import Settings
from codemode_server.tokens import estimate_tokens

if TYPE_CHECKING:
    from codemode_server.catalog.tree_answers import File

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
    from codemode_server.catalog.tree_answers import File
    from codemode_server.front.shortening import fit_text

    services, config = context.services, context.request.config
    await services.wait_for_listing()
    refusals = services.refusals(context.request)
    workspace = services.workspaces(context.request.principal)

    def skill(parts: tuple[str, ...]) -> tuple[str, str]:
        if len(parts) > 1:
            return services.skills.read_file(parts), ""
        found = services.skills.source(context.request.owner, parts[0])
        services.sources.take_over(context.request, found.sources)
        return found.text, found.note

    def read_file(parts: tuple[str, ...], for_some_lines: bool) -> str:
        context.request.require_text("a file in /workspace")
        return workspace.read(parts, for_some_lines)

    reading = read_tool(
        services.catalog(),
        arguments.path,
        refusal_of=refusals.of,
        asks_first=refusals.asks_first,
        skill=skill,
        workflow=services.workflows.text,
        workspace=read_file,
    )
    redactor = context.request.redactor
    text = "\n\n".join(redactor.visible(part.text) for part in reading.parts)
    if any(part.path.startswith("/workspace/") for part in reading.parts):
        budget, only = config.settings.limits.output_tokens, reading.parts[0]
        page = _page(only, redactor, budget) if len(reading.parts) == 1 and isinstance(only, File) else ""
        text = page or fit_text(text, budget, remedy="whole: in a program")
    text = fit_text(text, _MAX_TOKENS, remedy="ask for fewer lines: path:1-200")
    return Answer(text, {"text": text})


def _page(file: File, redactor: Redactor, budget_tokens: int) -> str:
    """The first lines of a workspace file, or of a part of it, within the budget for a program's output, and how to
    read the next ones; empty if a line is too long for that."""
    from codemode_server.front.shortening import CHARACTERS_PER_TOKEN

    lines = redactor.visible("\n".join(file.lines)).split("\n")
    text = "\n".join(lines)
    tokens = max(1, estimate_tokens(text))
    room = min(len(text) * budget_tokens / tokens, budget_tokens * CHARACTERS_PER_TOKEN)
    if tokens <= budget_tokens and len(text) <= room:
        return redactor.visible(file.text)
    lengths = [len(line) + 1 for line in lines]
    fitting = bisect(list(accumulate(lengths)), room * 0.8)
    if len(lines) != len(file.lines) or max(lengths) > room or not 0 < fitting < len(lines):
        return ""
    first = file.first_line + fitting
    last = min(first + fitting, file.first_line + len(lines)) - 1
    shown = redactor.visible(replace(file, lines=tuple(lines[:fitting])).text)
    advice = f"whole: in a program, or by lines, next: {redactor.visible(file.path)}:{first}-{last}"
    return f"{shown}\n[… {len(lines) - fitting:,} lines left out; {advice} …]"


META_TOOL = MetaToolSpec(
    name="read_tool",
    title="Read tools",
    arguments=ReadToolArguments,
    describe=_describe,
    annotations=READS,
    output_schema=TEXT_RESULT,
    handle=_read_tool,
)
