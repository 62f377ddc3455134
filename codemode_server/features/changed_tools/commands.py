"""The `tools` command: shows which tools changed since they were accepted, or are new, and accepts them, for a person
at a terminal only: what changed may be text that was written to talk a model into it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from codemode_server.cli.terminal import configuration, person_confirms, show
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.changed_tools.tool_definitions import REVIEW
from codemode_server.features.changed_tools.tool_reviews import (
    MAX_NAME_CHARACTERS,
    StoredTools,
    WaitingTool,
    accepted_text,
)
from codemode_server.records.executions import stored_records
from codemode_server.support.text import one_line

if TYPE_CHECKING:
    from codemode_server.app import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="review")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    review = actions.add_parser("review", help="print tools that changed or are new, and accept them; the default")
    review.add_argument("server", nargs="?", metavar="SERVER", help="only this server's")
    which = review.add_mutually_exclusive_group()
    which.add_argument(
        "--accept", metavar="SERVER/TOOL", help="accept one tool as it is shown; asks you at the terminal"
    )
    which.add_argument("--accept-all", action="store_true", help="accept all that is shown; asks you at the terminal")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    with stored_records(loaded) as records:
        stored = StoredTools(loaded, records.database, records.thread)
        found = stored.waiting(parsed.server)
        if parsed.accept is not None:
            found = [it for it in found if it.name == parsed.accept]
            if not found:
                raise CodemodeError(
                    f"no change of {one_line(parsed.accept, 200)!r} waits; `{REVIEW}` shows all that do"
                )
        if not found:
            show("no tool has changed since it was accepted")
        elif parsed.accept is None and not parsed.accept_all:
            show(f"{_page(found)}\n\n{REVIEW} --accept SERVER/TOOL | --accept-all")
        elif not person_confirms(_page(found), f"Accept {_count(found)} as shown?"):
            show("nothing was accepted")
            return 1
        else:
            show(accepted_text(anyio.run(stored.accept, found)))
    return 0


def _page(found: Sequence[WaitingTool]) -> str:
    return "\n\n".join(it.text for it in found)


def _count(found: Sequence[WaitingTool]) -> str:
    names = {it.name for it in found}
    return one_line(names.pop(), MAX_NAME_CHARACTERS) if len(names) == 1 else f"these {len(names)} tools"


async def status_lines(app: App) -> list[str]:
    """How many tools nobody has accepted as they are listed now; nothing if there are none."""
    listed = [(server.raw_name, tool.definition) for server in app.catalog().servers for tool in server.tools]
    count = sum(app.tools.definitions.unaccepted(*it) is not None for it in listed)
    return [f"changed tools: {count}, not accepted as they are now; `{REVIEW}` shows and accepts them"] if count else []
