"""What the four meta-tools answer, out of the catalog, the workspace, the skills and the executor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import Entry, list_dir, read_tool
from codemode_server.catalog.untrusted import one_line
from codemode_server.errors import MetaToolError
from codemode_server.execution.executor import Execution, Executor
from codemode_server.execution.kept import KeptResults
from codemode_server.execution.skills import Skills
from codemode_server.execution.workspace import Workspace
from codemode_server.front.blocks import contents_of, kept_name, program_answer
from codemode_server.front.server import ProgramAnswer, Progress
from codemode_server.model import Session, UpstreamState
from codemode_server.redaction import Redactor
from codemode_server.search.answer import search_tools
from codemode_server.search.habits import Habits
from codemode_server.search.levels import Levels
from codemode_server.settings import LimitSettings
from codemode_server.text import clean, clean_line, cut_middle

_ON_THEIR_WAY = (UpstreamState.WAITING, UpstreamState.CONNECTING)
_MOST_READ_TOKENS = 25_000
"""Of all that one `read_tool` reads; no module of a real tool is as long."""
_HEARTBEAT_SECONDS = 2.0
"""Between progress notifications while nothing else happens; hosts give up on a silent request."""


class Answers:
    """Implements `front.server.MetaTools`."""

    def __init__(
        self,
        *,
        listed: Callable[[], Awaitable[None]],
        catalog: Callable[[], Catalog],
        levels: Callable[[], Awaitable[Levels]],
        workspace: Workspace,
        skills: Skills,
        executor: Executor,
        habits: Habits,
        kept: KeptResults,
        limits: Callable[[], LimitSettings],
        redactor: Callable[[], Redactor],
        activity: Callable[[], str],
    ) -> None:
        self._listed = listed
        self._catalog = catalog
        self._levels = levels
        self._workspace = workspace
        self._skills = skills
        self._executor = executor
        self._habits = habits
        self._kept = kept
        self._limits = limits
        self._redactor = redactor
        self._activity = activity
        self._told_level = ""

    async def list_dir(self, path: str) -> tuple[str, dict[str, Any]]:
        await self._listed()
        folder = list_dir(self._catalog(), path, skills=self._skill_entries, workspace=self._workspace_entries)
        text = self._redactor().text(clean(folder.text))
        return text, {"text": text}

    async def read_tool(self, path: str) -> tuple[str, dict[str, Any]]:
        await self._listed()
        reading = read_tool(self._catalog(), path, skill=self._skills.source, workspace=self._workspace.read)
        # What programs left in /workspace may hold anything that they were given.
        text = cut_middle(
            self._redactor().text(clean(reading.text)), _MOST_READ_TOKENS, "ask for fewer lines: path:1-200"
        )
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

    def _level_news(self, levels: Levels) -> str:
        """While a better ranking is on its way, that it is; once for each that answers meanwhile."""
        status = levels.status
        coming = [state for state in status.states if not (state.is_ready or state.is_given_up or state.problem)]
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
        limits = self._limits()
        if timeout_s is not None and timeout_s > limits.wall_seconds:
            raise MetaToolError(
                f"execute_code: 'timeout' is at most {limits.wall_seconds:g} (limits.wall_seconds in upstream.yaml)"
            )
        execution = self._executor.start(code, session=session, timeout_s=timeout_s)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._report, execution, progress)
                await execution.done.wait()
                tasks.cancel_scope.cancel()
        finally:
            execution.cancel()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await execution.done.wait()
        return program_answer(execution, limits, self._redactor())

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        name = kept_name(uri)
        if name is None:
            raise MetaToolError(f"there is no resource {clean_line(uri, 200)!r}; a program's result names its own")
        item, data = await anyio.to_thread.run_sync(self._kept.read, session, name)
        return contents_of(item, data, self._redactor())

    async def _report(self, execution: Execution, progress: Progress) -> None:
        """Tell the host every now and then that the program lives, and what it did last."""
        beat = 0
        while True:
            beat += 1
            await progress(beat, self._news(execution))
            await anyio.sleep(_HEARTBEAT_SECONDS)

    def _news(self, execution: Execution) -> str:
        if execution.level is None:
            return self._activity() or "waiting for a sandbox"
        reports = execution.caller.reports
        if not reports:
            return "running"
        return f"running; {len(reports)} calls done, the last {reports[-1].server}.{reports[-1].tool}"
