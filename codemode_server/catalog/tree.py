"""Formats the catalog as folders and files for `list_dir` and `read_tool`.

Output is for the model's context: one line for each entry, bounded, in a fixed order. A path may be written as a path,
as a module or as `server.tool`, with Python or raw names. The error for an unknown path suggests the nearest ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool, no_refusal, shown
from codemode_server.catalog.nearest_names import nearest_servers
from codemode_server.catalog.resources import Resource, ServerResources
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.catalog.untrusted import one_line
from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.tools import Effect, Refusal
from codemode_server.support.text import counted, first_lines

FOLDERS = ("servers", "skills", "workflows", "workspace")
NO_SKILLS = "saved programs; there are none yet"
WORKFLOWS = "the user's workflows: from workflows import <name>"
PAGE_SIZE = 100
_MAX_LEFT_OUT = 3
MAX_FILES = 20
_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<first>\d{1,6})(?P<range>-(?P<last>\d{0,6}))?)?")
_RESULT = re.compile(r"/?(?:results/|x[0-9a-f]{12}(?:/|$|:))")
"""The path of a stored result, which is no file: its name begins with the ID of an execution."""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    note: str = ""
    is_folder: bool = False

    @property
    def text(self) -> str:
        name = f"{self.name}/" if self.is_folder else self.name
        return f"{name}  {self.note}" if self.note else name


class Shown(NamedTuple):
    path: str
    text: str


AsksFirst = Callable[[Server, Tool], bool]
ASKS_FIRST = "asks the user first"
_MAX_REASON_CHARACTERS = 160
_MAX_REASONS = 3


def never_asks(_server: Server, _tool: Tool) -> bool:
    return False


def tool_line(tool: Tool, mark: str = "", *, asks_first: bool = False) -> str:
    """The text shown after a tool's name on one line; `mark` says that it can't be called."""
    stated = "" if tool.effect is Effect.UNKNOWN else str(tool.effect)
    effects = ", ".join(filter(None, [stated, ASKS_FIRST if asks_first and not mark else ""]))
    effect = f"({effects})" if effects else ""
    mark = f"[{mark}]" if mark else ""
    deprecated = "(deprecated)" if tool.deprecation and "deprecated" not in tool.summary.lower() else ""
    return " ".join(part for part in (tool.summary, deprecated, effect, mark) if part)


def short_refusal(refusal: Refusal | None) -> str:
    """`not permitted`, without the reason; empty if the tool can be called."""
    return "not permitted" if refusal else ""


def refusal_line(refusal: Refusal | None) -> str:
    """Why a tool can't be called, bounded; empty if it can."""
    return one_line(refusal.predicate, _MAX_REASON_CHARACTERS) if refusal else ""


def refused(server: Server, listed: Iterable[Tool | Resource], refusal_of: RefusalOf) -> list[str]:
    """How many tools or resources of a server are refused, for each reason."""
    refusals = Counter(refusal for one in listed if (refusal := refusal_of(server, one)))
    by_number = refusals.most_common()
    remarks = [
        f"{count} not permitted: {one_line(refusal.reason, _MAX_REASON_CHARACTERS)}"
        for refusal, count in by_number[:_MAX_REASONS]
    ]
    if rest := sum(count for _, count in by_number[_MAX_REASONS:]):
        remarks.append(f"{rest} refused by other rules")
    return remarks


@dataclass(frozen=True, slots=True)
class Tree:
    """The folders and files that one caller may see. Every method raises `MetaToolError` for a path, page or range of
    lines that there is not."""

    catalog: Catalog
    refusal_of: RefusalOf = no_refusal
    asks_first: AsksFirst = never_asks
    skills: Callable[[], Iterable[Entry]] = tuple
    workflows: Callable[[], Iterable[Entry]] = tuple
    workspace: Callable[[tuple[str, ...]], Iterable[Entry]] = lambda _folder: ()
    skill: Callable[[str], tuple[str, str]] | None = None
    """The text of a skill and what its head says."""
    workflow: Callable[[str], str] | None = None
    workspace_file: Callable[[tuple[str, ...], bool], str] | None = None
    """The text of a file, given its path and whether only some of its lines are requested."""

    def list_dir(self, path: str = "/") -> Shown:
        catalog = self.catalog
        place, page = _page(path)
        parts = _parts(place)
        match parts:
            case []:
                return self._root()
            case ["servers"]:
                return _paged("/servers", _totals(catalog), list(map(_server_entry, catalog.servers)), page)
            case ["skills"]:
                found = _sorted(self.skills())
                return _paged("/skills", "from skills.<name> import <name>" if found else NO_SKILLS, found, page)
            case ["workflows"]:
                return _paged("/workflows", WORKFLOWS, _sorted(self.workflows()), page)
            case ["workspace", *inner]:
                found = _sorted(self.workspace(tuple(inner)))
                return _paged("/".join(("/workspace", *inner)), "" if found else "empty", found, page)
        match _at(catalog, parts, place):
            case Server() as server:
                return self._server_folder(server, page)
            case ServerResources() as resources:
                return self._resources_folder(catalog.server(resources.server), page)
            case Tool() | Resource() as file:
                raise MetaToolError(f'"{file.path}" is a file: read_tool("{file.path}") reads it')
        raise MetaToolError(_no_such(catalog, place, parts))

    def read_tool(self, path: str) -> list[Shown]:
        """The files at one or more paths; a path may end with a range of lines such as `:10-40`."""
        places = [place for place in re.split(r"[,\s]+", path.strip()) if place]
        if not places:
            raise MetaToolError(
                'read_tool takes a path such as "/servers/<server>/<tool>.py"; list_dir("/servers") lists them'
            )
        if len(places) > MAX_FILES:
            raise MetaToolError(f"read_tool reads at most {MAX_FILES} files at once, not {len(places)}")
        return list(map(self._read, places))

    def _root(self) -> Shown:
        usage = "; a tool is a function: from servers.<server> import <tool>"
        has_skills, has_workflows = any(map(bool, self.skills())), any(map(bool, self.workflows()))
        entries = (
            Entry("servers", f"{_totals(self.catalog)}{usage}", True),
            Entry("skills", "saved programs: from skills.<name> import <name>" if has_skills else NO_SKILLS, True),
            *((Entry("workflows", WORKFLOWS, True),) if has_workflows else ()),
            Entry("workspace", "files that programs wrote, for later programs", True),
        )
        return _paged("/", "list_dir opens these folders", entries, 1)

    def _server_folder(self, server: Server, page: int) -> Shown:
        raw = f'"{one_line(server.raw_name, 80)}"' if server.raw_name != server.name else ""
        others = [*server.listing.left_out.items()]
        reasons = first_lines(others, _MAX_LEFT_OUT, line=lambda it: f"{one_line(it[0], 80)}: {one_line(it[1], 120)}")
        left_out = f"{len(others):,} left out: {'; '.join(reasons)}" if reasons else ""
        count, refusals = counted(len(server.tools), "tool"), refused(server, server.tools, self.refusal_of)
        summary = " · ".join(filter(None, [raw, count, *refusals, server.availability, left_out]))
        entries = [
            Entry(
                f"{it.name}.py",
                tool_line(it, short_refusal(self.refusal_of(server, it)), asks_first=self.asks_first(server, it)),
            )
            for it in sorted(server.tools, key=lambda it: it.name)
        ]
        if (found := server.resources).all:
            entries.insert(0, Entry(found.module, f"{found.counts}: {found.all[0].import_line}", is_folder=True))
        return _paged(f"/servers/{server.name}", summary, entries, page)

    def _resources_folder(self, server: Server, page: int) -> Shown:
        found = server.resources
        usage = f"{found.counts} of {server.name}; in a program: {found.all[0].import_line}; {found.all[0].read_line}"
        entries = []
        for resource in found.all:
            mark = short_refusal(self.refusal_of(server, resource))
            entries.append(Entry(resource.name, f"{resource.summary} [{mark}]".lstrip() if mark else resource.summary))
        refusals = refused(server, found.all, self.refusal_of)
        summary = " · ".join(filter(None, [usage, *refusals, server.availability]))
        return _paged(f"/servers/{server.name}/{found.module}", summary, entries, page)

    def _read(self, place: str) -> Shown:
        match = _PLACE.fullmatch(place)
        assert match is not None  # noqa: S101  (the pattern matches whatever is not empty)
        path = match["path"]
        parts = _parts(_page(path)[0])
        match parts:
            case [] | ["servers"] | ["skills"] | ["workflows"]:
                return self.list_dir(path)
            case ["servers", "__init__"]:
                return _file("/servers/__init__.py", SERVERS_PACKAGE, match)
            case ["skills", name] if self.skill is not None:
                text, note = self.skill(name)
                return _file(f"/skills/{name}.py", text, match, note)
            case ["workflows", name] if self.workflow is not None:
                name = name.removesuffix(".yaml")
                return _file(f"/workflows/{name}.yaml", self.workflow(name), match)
            case ["workspace", *inner] if self.workspace_file is not None and inner:
                # The suffix `.py` is optional only for files that we name; here it belongs to the name.
                inner[-1] = path.rsplit("/", 1)[-1]
                text = self.workspace_file(tuple(inner), bool(match["first"]))
                return _file("/".join(("/workspace", *inner)), text, match)
        match _at(self.catalog, parts, path):
            case ServerResources() as resources if path.endswith(".py"):
                return _file(f"/servers/{resources.server}/{resources.module}.py", resources.source, match)
            case Server() | ServerResources():
                return self.list_dir(path)
            case Resource() as resource:
                return _file(resource.path, resource.text, match, self._notes(resource))
            case Tool() as tool:
                return _file(tool.path, tool.stub.source, match, self._notes(tool))
        if _RESULT.match(place):
            raise MetaToolError("stored results are read in a program: from codemode import results")
        raise MetaToolError(_no_such(self.catalog, path, parts))

    def _notes(self, listed: Tool | Resource) -> str:
        """Notes for the head of a file on what prevents or delays the use of a tool or resource."""
        server = self.catalog.server(listed.server)
        refusal = self.refusal_of(server, listed)
        asks = ASKS_FIRST if refusal is None and isinstance(listed, Tool) and self.asks_first(server, listed) else ""
        return "".join(f" · {note}" for note in (server.availability, refusal_line(refusal), asks) if note)


def prepare(catalog: Catalog) -> None:
    """Computes in advance what the folders of a catalog show; takes seconds for thousands of tools."""
    for server in catalog.servers:
        _server_entry(server)
        for tool in server.tools:
            tool_line(tool)


def _totals(catalog: Catalog) -> str:
    return f"{counted(len(catalog.servers), 'server')}, {counted(catalog.tool_count, 'tool')}"


def _server_entry(server: Server) -> Entry:
    summary = server.summary
    if len(server.tools) == 1 and summary == (only := server.tools[0]).summary:
        summary = f"{only.name}: {summary}" if summary else only.name
    counts = ", ".join(filter(None, [counted(len(server.tools), "tool"), server.resources.counts]))
    return Entry(server.name, " · ".join(filter(None, [summary, counts, server.availability])), is_folder=True)


def _paged(path: str, summary: str, entries: Sequence[Entry], page: int) -> Shown:
    pages = max(1, -(-len(entries) // PAGE_SIZE))
    if not 1 <= page <= pages:
        raise MetaToolError(f'"{path}" has {counted(pages, "page")}, no page {page}')
    lines = [f"{path} · {summary}" if summary else path]
    lines += [entry.text for entry in entries[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]]
    if pages > 1:
        following = f'; next: list_dir("{path}?page={page + 1}")' if page < pages else ""
        lines.append(f"page {page} of {pages}{following}")
    return Shown(path, "\n".join(lines))


def _file(path: str, text: str, match: re.Match[str], note: str = "") -> Shown:
    lines = text.rstrip("\n").split("\n")
    first = int(match["first"] or 1)
    last = first if match["first"] and not match["range"] else min(int(match["last"] or len(lines)), len(lines))
    if match["last"] and first > int(match["last"]):
        raise MetaToolError(
            f"the range of lines ends before it begins; write it like :10-40, not :{first}-{match['last']}"
        )
    if not 1 <= first <= last <= len(lines):
        raise MetaToolError(f'"{path}" has lines 1-{len(lines)}')
    part = f" · lines {first}-{last} of {len(lines)}" if (first, last) != (1, len(lines)) else ""
    return Shown(path, "\n".join([f"# {path}{part}{note}", *lines[first - 1 : last]]))


def _page(path: str) -> tuple[str, int]:
    place, mark, page = path.strip().partition("?page=")
    if mark and not re.fullmatch(r"\d{1,6}", page):
        raise MetaToolError(f"a page is a number, as in {shown(place + '?page=2')}")
    return place, int(page) if mark else 1


def _parts(path: str) -> list[str]:
    """The parts of a path, prefixed with `servers` unless it starts with a top folder."""
    text = path.strip().removesuffix(".py")
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if len(parts) == 1 and not path.startswith("/"):
        parts = _dotted(parts[0])
    return parts if not parts or parts[0] in FOLDERS else ["servers", *parts]


def _dotted(text: str) -> list[str]:
    """The parts of `servers.github.create_issue` or `github.create_issue`; a tool's raw name may contain dots."""
    found = text.split(".", 2) if text.startswith(tuple(f"{name}." for name in FOLDERS)) else text.split(".", 1)
    return [part for part in found if part]


def _at(catalog: Catalog, parts: list[str], place: str) -> Server | ServerResources | Tool | Resource | None:
    server = catalog.by_name.get(parts[1]) if len(parts) > 1 and parts[0] == "servers" else None
    if server is None or len(parts) == 2:
        return server
    if not server.has_resources_as(parts[2]):
        return server.by_name.get(parts[2]) if len(parts) == 3 else None
    if len(parts) == 3:
        return server.resources
    file = place.strip().rstrip("/").rpartition("/")[2]  # `.py` at the end is part of its name
    return next((it for it in server.resources.all if it.name == file), None) if len(parts) == 4 else None


def _no_such(catalog: Catalog, place: str, parts: list[str]) -> str:
    match parts:
        case ["servers", name]:
            same = sorted(tool.path for server in catalog.servers if (tool := server.by_name.get(name)))
            if same:
                return f"no folder {shown(place)}; a tool of that name is at {', '.join(same[:3])}"
            if mistyped := catalog.mistyped_tools(name):
                return f"no folder {shown(place)}; nearest: {', '.join(tool.path for tool in mistyped)}"
            near = nearest_servers(name, (server.name for server in catalog.servers))
            if not place.startswith("/") or place.startswith("/servers/") or near.startswith("nearest"):
                return f"no folder {shown(place)}; {near}"
        case ["servers", name, tool] if name in catalog.by_name:
            try:
                catalog.tool(name, tool)
            except UnknownTool as error:
                return f"no file {shown(place)}: {error}"
        case ["servers", _, _, resource] if isinstance(resources := _at(catalog, parts[:3], ""), ServerResources):
            return f"no file {shown(place)}: {resources.find(resource, {}).problem}"
    return (
        f"no file or folder {shown(place)}; there are /servers, /servers/<server>, /servers/<server>/<tool>.py, "
        "/skills and /workspace (the user's own files are read by a server's tool: search_tools)"
    )


def _sorted(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.name)
