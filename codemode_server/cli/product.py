"""A product for a command, without a host: with its upstreams connected, or to run a recorded execution again."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from codemode_server.app import App
from codemode_server.cli import logs
from codemode_server.config import LoadedSettings
from codemode_server.config.live import Caller
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Session
from codemode_server.executions.execution import Execution
from codemode_server.mcp_server.blocks import program_answer
from codemode_server.records.connected import connected

logger = logging.getLogger(__name__)


@asynccontextmanager
async def inspected(loaded: LoadedSettings, wait_seconds: float) -> AsyncIterator[App]:
    """A product without a host, whose upstreams are ready or have failed."""

    def start_log(app: App) -> None:
        logs.start(None, app.config)
        for line in loaded.other_messages:  # the catalog has the errors of single servers
            logger.warning("%s", line)

    async with connected(loaded, wait_seconds, start_log) as app:
        yield app


_ANSWER_SECONDS = 0.3
"""Time in which an answer that was given before is read from the database."""
COMMAND_SESSION = Session("command", is_ephemeral=True)


async def run_again(loaded: LoadedSettings, action: str, execution_id: str, *, as_json: bool) -> tuple[str, bool]:
    """The answer of the program once it has ended, and whether it succeeded. `action` is `resume` or `replay`; a replay
    starts no server, and is recorded as an execution of its own. Raises `CodemodeError` if it can't run again."""
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        app.connect(with_upstreams=action == "resume")
        try:
            if (reruns := app.reruns) is None:
                raise CodemodeError("this codemode-server runs no program again")
            begin = reruns.resume if action == "resume" else reruns.replay
            execution = await begin(ExecutionId(execution_id), Caller.of(COMMAND_SESSION, app.config))
            return await ended(app, execution, as_json=as_json)
        except CodemodeError as error:
            problem = error
    raise problem  # within the product it would come out as a group of exceptions


async def ended(app: App, execution: Execution, *, as_json: bool) -> tuple[str, bool]:
    """The answer of the program of a live execution once it has ended, and whether it succeeded."""
    await _tell_of_questions(execution)
    answer = program_answer(execution, app.config.settings.limits, app.config.redactor)
    text = json.dumps(answer.content, indent=2) if as_json else answer.text
    return text, execution.status is ExecutionStatus.SUCCEEDED


async def _tell_of_questions(execution: Execution) -> None:
    """Print each question's command, until the execution has ended; not of those that have an answer already."""
    told = set[int]()
    while not execution.done.is_set():
        if execution.awaited.keys() - told:
            await anyio.sleep(_ANSWER_SECONDS)
            for seq, name in execution.awaited.items():
                commands = execution.calls.approvals.questions.get(seq, "codemode-server approvals list")
                print(f"{name}: waits for your answer: {commands}", file=sys.stderr)
            told |= execution.awaited.keys()
        else:
            await execution.changed.wait()
