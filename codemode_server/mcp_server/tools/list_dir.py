"""The meta-tool `list_dir`: lists servers, tools, skills and the files of the workspace as folders."""

from __future__ import annotations

from codemode_server.catalog.tree import Entry, Tree
from codemode_server.catalog.untrusted import one_line
from codemode_server.config.settings import Settings
from codemode_server.mcp_server.listing import Listing
from codemode_server.mcp_server.product import ToolContext
from codemode_server.mcp_server.tools.registry import (
    READS,
    TEXT_RESULT,
    Answer,
    Description,
    MetaToolSpec,
    ToolArguments,
)

_MAX_NAME_CHARACTERS = 200


class ListDirArguments(ToolArguments):
    path: str = "/"


def _describe(settings: Settings, servers: Listing) -> Description:
    return Description(
        "List the user's MCP servers (/servers), the tools of one (/servers/<server>), saved programs (/skills) or "
        "files that programs wrote (/workspace)."
    )


async def _list_dir(arguments: ListDirArguments, context: ToolContext) -> Answer:
    product, config = context.product, context.caller.config

    def skills() -> list[Entry]:
        if (library := product.skills) is None:
            return []
        usable = [Entry(f"{it.name}.py", it.note) for it in library.entries(context.caller.owner)]
        return usable + [Entry(*it) for it in library.waiting(context.caller.owner).items()]

    def workflows() -> list[Entry]:
        found = [] if product.workflows is None else product.workflows.entries()
        return [Entry(f"{it.name}.yaml", it.summary) for it in found]

    def workspace(parts: tuple[str, ...]) -> list[Entry]:
        return [
            Entry(
                one_line(entry.name, _MAX_NAME_CHARACTERS),
                "" if entry.is_folder else f"{entry.size:,} bytes",
                entry.is_folder,
            )
            for entry in product.workspace(context.caller.principal).list(parts)
        ]

    await product.tools.wait_for_listing()
    refusals = product.refusals.for_principal(context.caller)
    tree = Tree(product.tools.current(), refusals.of, refusals.asks_first, skills, workflows, workspace)
    folder = tree.list_dir(arguments.path)
    notices = config.notices if folder.path in ("/", "/servers") else ()
    shown = context.caller.redactor.visible(folder.text)
    text = "\n".join((shown, *map(config.redactor.visible, notices)))
    return Answer(text, {"text": text})


META_TOOL = MetaToolSpec(
    name="list_dir",
    title="List a folder",
    arguments=ListDirArguments,
    describe=_describe,
    annotations=READS,
    output_schema=TEXT_RESULT,
    handle=_list_dir,
    shows_failure=True,
)
