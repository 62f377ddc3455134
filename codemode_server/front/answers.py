"""Answers calls of the four meta-tools from the catalog, the workspace, the skills and the execution service."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Awaitable, Callable, Mapping
from itertools import accumulate
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import Entry, list_dir, read_tool
from codemode_server.catalog.untrusted import one_line
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import UpstreamState
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.service import ExecutionService
from codemode_server.executions.skills import Skills
from codemode_server.executions.workspace import Workspace
from codemode_server.front.blocks import contents_of, kept_name, program_answer
from codemode_server.front.listing import Listing, listing_of
from codemode_server.front.meta_tools import definitions
from codemode_server.front.progress import report_progress
from codemode_server.front.server import ProgramAnswer, Progress
from codemode_server.front.session_definitions import SessionDefinitions
from codemode_server.front.shortening import CHARACTERS_PER_TOKEN, fit_text
from codemode_server.off_loop import LARGE_BYTES, is_large, run_sized
from codemode_server.search.answer import search_tools
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.text import clean_line, cut_middle
from codemode_server.tokens import estimate_tokens

_ON_THEIR_WAY = (UpstreamState.WAITING, UpstreamState.CONNECTING)
_MAX_READ_TOKENS = 25_000
"""Tokens that one `read_tool` returns at most; no module of a real tool is as long."""


class Answers:
    """Implements `front.server.MetaTools`."""

    def __init__(
        self,
        *,
        listed: Callable[[], Awaitable[None]],
        catalog: Callable[[], Catalog],
        levels: Callable[[], Awaitable[RankerStack]],
        workspace: Workspace,
        skills: Skills,
        executions: ExecutionService,
        habits: UsageStats,
        kept: ArtifactStore,
        config: LiveConfig,
        activity: Callable[[], str],
        uses: Callable[[], Mapping[ToolName, Use]],
    ) -> None:
        self._listed = listed
        self._catalog = catalog
        self._levels = levels
        self._workspace = workspace
        self._skills = skills
        self._executions = executions
        self._habits = habits
        self._kept = kept
        self._config = config
        self._activity = activity
        self._structured_content = config.settings.results.structured_content
        self._uses = uses
        self._definitions = SessionDefinitions()
        self._told_level = ""

    async def has_structured_content(self) -> bool:
        return self._structured_content

    def servers(self) -> Listing:
        """The text about the servers for the descriptions and instructions of a session that begins now."""
        return listing_of(self._catalog(), self._config.settings, self._uses(), self._config.redactor.text)

    async def definitions(self, session: Session) -> list[dict[str, Any]]:
        settings = self._config.settings
        offered = (self._catalog().version, settings)
        return self._definitions.of(session, offered, lambda: definitions(settings, self.servers()))

    async def list_dir(self, path: str) -> tuple[str, dict[str, Any]]:
        await self._listed()
        folder = list_dir(self._catalog(), path, skills=self._skill_entries, workspace=self._workspace_entries)
        notices = self._config.notices if folder.path in ("/", "/servers") else ()
        text = self._config.redactor.visible("\n".join((folder.text, *notices)))
        return text, {"text": text}

    async def read_tool(self, path: str) -> tuple[str, dict[str, Any]]:
        await self._listed()
        reading = read_tool(self._catalog(), path, skill=self._skills.source, workspace=self._workspace.read)
        # What programs left in /workspace may hold anything that they were given.
        text = self._config.redactor.visible(reading.text)
        if any(part.path.startswith("/workspace/") for part in reading.parts):
            text = _fit_workspace_text(text, self._config.settings.limits.output_tokens)
        text = cut_middle(text, _MAX_READ_TOKENS, "ask for fewer lines: path:1-200")
        return text, {"text": text}

    async def search_tools(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None, session: Session
    ) -> tuple[str, dict[str, Any]]:
        await self._listed()
        levels = await self._levels()
        found = await anyio.to_thread.run_sync(
            search_tools, self._catalog(), levels, query, detail_level, server, limit, effect
        )
        if query.strip():
            self._habits.found(session, found.tools)
        notes = [note for note in (self._late(), self._level_news(levels)) if note]
        note = "\n".join(part for part in (found.doubt, found.note, *notes) if part)
        content: dict[str, Any] = {"tools": found.as_json()}
        return "\n".join([found.text, *notes]), content | ({"note": note} if note else {})

    def _late(self) -> str:
        late = [it.name for it in self._catalog().servers if not it.tools and it.state in _ON_THEIR_WAY]
        return f"still connecting: {', '.join(late)}; search again for their tools" if late else ""

    def _level_news(self, levels: RankerStack) -> str:
        """That a better ranking is being prepared; once for each that answers meanwhile.

        A level counts from when its encoder works: before that, it may turn out that there is no model.
        """
        status = levels.status
        coming = [state for state in status.states if state.total and not (state.is_ready or state.problem)]
        if not coming or self._told_level == status.level:
            return ""
        self._told_level = status.level
        by = "words only" if status.level == "lexical" else f"the {status.level} level"
        return f"ranked by {by} for now; {coming[-1].level}: {clean_line(coming[-1].text, 120)}"

    def _skill_entries(self) -> list[Entry]:
        return [Entry(f"{skill.name}.py", skill.summary) for skill in self._skills.entries()]

    def _workspace_entries(self, parts: tuple[str, ...]) -> list[Entry]:
        return [
            Entry(one_line(entry.name, 200), "" if entry.is_folder else f"{entry.size:,} bytes", entry.is_folder)
            for entry in self._workspace.list(parts)
        ]

    async def execute_code(
        self, code: str, timeout_s: float | None, session: Session, progress: Progress
    ) -> ProgramAnswer:
        limits = self._config.settings.limits
        if timeout_s is not None and timeout_s > limits.wall_seconds:
            raise MetaToolError(
                f"execute_code: 'timeout' is at most {limits.wall_seconds:g} (the user can raise limits.wall_seconds)"
            )
        context = RequestContext.local(session, self._config)
        execution = self._executions.start(code, context, timeout_s=timeout_s)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(report_progress, execution, progress, self._activity)
                await self._executions.wait(execution.execution_id)
                tasks.cancel_scope.cancel()
        finally:  # a host that cancels or disconnects cancels its executions
            await self._executions.cancel(execution.execution_id)
        outcome = execution.outcome
        is_long = len(outcome.stdout) + len(outcome.stderr) > LARGE_BYTES or is_large(outcome.value)
        return await run_sized(is_long, program_answer, execution, limits, self._config.redactor)

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        name = kept_name(uri)
        if name is None:
            raise MetaToolError(f"there is no resource {clean_line(uri, 200)!r}; a program's result names its own")
        item, data = await anyio.to_thread.run_sync(self._kept.read, session, name)
        return contents_of(item, data, self._config.redactor)


def _fit_workspace_text(text: str, budget_tokens: int) -> str:
    """Lines of files of programs, within what a program may show; where that is cut, with what shows the rest."""
    tokens = max(1, estimate_tokens(text))
    room = min(len(text) * budget_tokens / tokens, budget_tokens * CHARACTERS_PER_TOKEN)
    lengths = [len(line) + 1 for line in text.split("\n")]
    fitting = bisect(list(accumulate(lengths)), room * 0.8) - 1  # without the line that names the file
    by_lines = f", or by lines: path:1-{fitting}" if fitting > 0 and max(lengths) < room else ""
    return fit_text(text, budget_tokens, name=f"in a program{by_lines}")
