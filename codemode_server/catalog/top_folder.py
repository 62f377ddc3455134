"""The folder `/`: what there is to open, and the lines that say how it is imported."""

from __future__ import annotations

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree_answers import Entry, Folder

FOLDERS = ("servers", "skills", "workflows", "workspace")
NO_SKILLS = "saved programs; there are none yet"
WORKFLOWS = "the user's workflows: from workflows import <name>"


def root(catalog: Catalog, *, has_skills: bool, has_workflows: bool) -> Folder:
    """The top folder."""
    entries = (
        Entry("servers", f"{totals(catalog)}; a tool is a function: from servers.<server> import <tool>", True),
        Entry("skills", "saved programs: from skills.<name> import <name>" if has_skills else NO_SKILLS, True),
        *((Entry("workflows", WORKFLOWS, True),) if has_workflows else ()),
        Entry("workspace", "files that programs wrote, for later programs", True),
    )
    return Folder("/", "list_dir opens these folders", entries)


def totals(catalog: Catalog) -> str:
    """How many servers and tools there are."""
    return f"{counted(len(catalog.servers), 'server')}, {counted(catalog.tool_count, 'tool')}"


def counted(number: int, word: str) -> str:
    """`1 tool`, `1,200 tools`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
