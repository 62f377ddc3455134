"""The tools of upstreams that the host gets beside the meta-tools, because the configuration exposes them.

What upstreams say of their tools is untrusted: names are made fit for every host, texts are masked and cut, schemas
pass `safe_schema`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codemode_server.calls.policy.rules import PermissionRules, Subject
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.untrusted import one_line, prose
from codemode_server.config.settings import Settings
from codemode_server.domain.tools import Effect
from codemode_server.features.direct_tools.calls import call_direct_tool
from codemode_server.features.direct_tools.schema import UnfitSchema, safe_schema
from codemode_server.support.redaction import Redactor
from codemode_server.support.tokens import estimate_tokens

if TYPE_CHECKING:
    from codemode_server.app import App
    from codemode_server.mcp_server.product import ToolContext
    from codemode_server.mcp_server.tools.registry import Answer

MAX_TOOLS = 100
"""OpenAI's models take 128 tools of all servers together; more direct tools than this serve nobody."""
MAX_NAME_CHARACTERS = 48
"""Models' interfaces take names of 64 characters, and hosts put `mcp__codemode__` or the like before ours."""
MAX_CHARACTERS = 200_000
"""Maximum length of all definitions together, as JSON."""
TARGET = "codemode-server/tool"
"""Key in the `_meta` of a definition: the raw names of the server and the tool that a call is sent to."""
_MAX_PROBLEMS = 20
"""Tools whose schemas are unfit, after which no more are looked at: a hostile server has thousands."""
_MAX_NAMED = 30
_MAX_DESCRIPTION_CHARACTERS = 1_200
"""Claude Code cuts a description at 2 KB."""
_HASH_CHARACTERS = 6
_ANNOTATIONS: dict[Effect, dict[str, bool]] = {
    Effect.READS: {"readOnlyHint": True},
    Effect.WRITES: {"readOnlyHint": False, "destructiveHint": False},
    Effect.DESTROYS: {"readOnlyHint": False, "destructiveHint": True},
    Effect.UNKNOWN: {},
}


class DirectTools:
    """The tools that a configuration exposes and that can be called, perhaps after asking the person."""

    def __init__(self, catalog: Catalog, settings: Settings, redactor: Redactor) -> None:
        self._redactor = redactor
        self.servers = frozenset(name for name, server in settings.servers.items() if server.may_have_direct_tools)
        """Raw names of the servers that may have some."""
        rules = PermissionRules(settings.permissions)
        self.found = [
            (server, tool)
            for server in catalog.servers
            if server.raw_name in self.servers
            for tool in server.tools
            if settings.servers[server.raw_name].is_direct(tool.raw_name)
            if rules.always_denied(Subject.of_tool(server, tool)) is None
        ]
        """In the order of the catalog."""

    def definitions(self) -> list[dict[str, Any]]:
        """As many as hosts take; `codemode-server status` says why others are left out."""
        return self.checked_definitions()[0]

    def checked_definitions(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The definitions, and why tools are left out, a line each."""
        shown: list[dict[str, Any]] = []
        problems: list[str] = []
        room = MAX_CHARACTERS
        for number, (name, (server, tool)) in enumerate(zip(_names(self.found), self.found, strict=True)):
            try:
                definition = self._definition(name, server, tool)
            except UnfitSchema as error:
                problem = f"{server.name}.{tool.name} is not offered to the host: {error}"
                problems.append(self._redactor.line(problem, 300))
                if len(problems) == _MAX_PROBLEMS:
                    break
                continue
            room -= len(json.dumps(definition, ensure_ascii=False))
            if room < 0 or len(shown) == MAX_TOOLS:
                bound = f"{MAX_TOOLS} direct tools" if len(shown) == MAX_TOOLS else f"{MAX_CHARACTERS:,} characters"
                left = len(self.found) - number
                problems.append(f"{left} direct tools are not offered to the host, since hosts take at most {bound}")
                break
            shown.append(definition)
        return shown, problems

    def _definition(self, name: str, server: Server, tool: Tool) -> dict[str, Any]:
        """The tool as the protocol has it. Raises `UnfitSchema`: models' interfaces would refuse its input schema."""
        said, redactor = tool.definition, self._redactor
        text = prose(redactor.head(said.description, 4 * _MAX_DESCRIPTION_CHARACTERS), _MAX_DESCRIPTION_CHARACTERS)
        title = one_line(redactor.head(said.title or "", 400), 80)
        return {
            "name": name,
            **({"title": redactor.text(f"{server.name}: {title}")} if title else {}),
            "description": redactor.text(f"[{server.name}] {text or tool.raw_name}"),
            "inputSchema": safe_schema(said.input_schema, redactor),
            "annotations": dict(_ANNOTATIONS[tool.effect]),
            "_meta": {"anthropic/alwaysLoad": True, TARGET: [server.raw_name, tool.raw_name]},
        }

    def server_of(self, definition: Mapping[str, Any]) -> str | None:
        """The raw name of its server; None for a tool of ours."""
        target = definition["_meta"].get(TARGET)
        return None if target is None else str(target[0])

    async def call(self, definition: Mapping[str, Any], arguments: dict[str, Any], context: ToolContext) -> Answer:
        """Call the tool, which the session was offered. Raises `MetaToolError`: it is not offered any more."""
        server, tool = definition["_meta"][TARGET]
        return await call_direct_tool(server, tool, arguments, context)


def _names(found: Sequence[tuple[Server, Tool]]) -> list[str]:
    """A name for each that no other has in any spelling. Tools of one name all get a hash of their raw names, so that
    a name never moves from one tool to another."""
    plain = [f"{server.name}__{tool.name}" for server, tool in found]
    unclear = {name for name, count in Counter(name.casefold() for name in plain).items() if count > 1}
    return [
        _hashed_name(name, server, tool) if name.casefold() in unclear or not _FIT.fullmatch(name) else name
        for name, (server, tool) in zip(plain, found, strict=True)
    ]


_FIT = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
"""Names that all hosts and models take."""


def _hashed_name(name: str, server: Server, tool: Tool) -> str:
    digest = hashlib.sha256(f"{server.raw_name}\0{tool.raw_name}".encode(errors="surrogatepass")).hexdigest()
    begin = "" if re.match("[A-Za-z]", name) else "t_"
    fit = re.sub("[^A-Za-z0-9_-]", "_", begin + name)[: MAX_NAME_CHARACTERS - _HASH_CHARACTERS - 1].rstrip("_")
    return f"{fit}_{digest[:_HASH_CHARACTERS]}"


async def status_lines(app: App) -> list[str]:
    """The tools that hosts get beside the four, on a line, and why others don't come; nothing if none are exposed."""
    catalog, settings = app.catalog(), app.config.settings
    if not any(it.may_have_direct_tools for it in settings.servers.values()):
        return []
    found, problems = DirectTools(catalog, settings, app.config.redactor).checked_definitions()
    names = ", ".join(it["name"] for it in found[:_MAX_NAMED]) + (", …" if len(found) > _MAX_NAMED else "")
    tokens = sum(estimate_tokens(json.dumps(it, ensure_ascii=False)) for it in found)
    line = f"direct tools: {names} ({len(found)}, {tokens:,} tokens)" if found else "direct tools: none"
    return [line, *(f"direct tools: {problem}" for problem in problems)]
