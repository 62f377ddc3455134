"""Runs what has no record yet, one run after the other, within a budget in money."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anyio import to_thread

from benchmarks.tasks.sessions import Session
from benchmarks.trial.arms import call, connected
from benchmarks.trial.plan import MAX_TURNS, Cell
from benchmarks.trial.records import Records
from benchmarks.trial.task import Opened, Task
from benchmarks.trial.wire import Conversation, Definition, Endpoint, EndpointError, Prices, Refused, Reply, Usage

SYSTEM = """\
You work for a user with the tools that you are given. Do all that the user asks; nobody answers questions meanwhile.
When it is done, say the result in plain text, without calling a tool.
"""


class BudgetSpent(Exception):
    """Raised before a request that might cost more than what is left."""


@dataclass
class Trial:
    tasks: Sequence[Task]
    endpoint: Endpoint
    prices: Prices
    budget: float
    records: Records
    say: Callable[[str], None] = print

    async def run(self, cells: Sequence[Cell]) -> None:
        """
        Raises:
            BudgetSpent: what is left may not suffice for the next request.
            EndpointError: the endpoint can't be used. Both leave records that a later run goes on with.
        """
        tasks = {task.name: task for task in self.tasks}
        left = [cell for cell in cells if cell.key not in self.records.done]
        self.say(f"{len(left)} of {len(cells)} runs; spent {self.records.spent:.4f} of {self.budget:g}")
        if left:
            await self._try_endpoint()
        for cell in left:
            with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as name:
                run = _Run(self, cell, tasks[cell.task], Path(name))
                await run.run()
            self.say(f"{cell.key}: {run.reason or 'solved'}; spent {self.records.spent:.4f}")

    async def ask(self, conversation: Conversation, **named: Any) -> Reply:
        """A reply, which is recorded with what is named."""
        most = self.endpoint.most(conversation).cost(self.prices)
        if self.records.spent + most > self.budget:
            raise BudgetSpent(
                f"spent {self.records.spent:.4f} of {self.budget:g}; the next request may cost {most:.4f}. "
                "Start again with a larger --budget to go on"
            )
        reply = await self.endpoint.ask(conversation)
        usage, cost = asdict(reply.usage), reply.usage.cost(self.prices)
        seconds = round(reply.seconds, 3)
        self.records.add("request", **named, reply=reply.message, usage=usage, cost=cost, seconds=seconds)
        return reply

    async def _try_endpoint(self) -> None:
        """One short request: what is refused here is a wrong model or parameter, and no result of an arm."""
        conversation = Conversation("Answer with one word.", [], [{"role": "user", "content": "Ready?"}])
        try:
            await self.ask(conversation, said=conversation.messages)
        except Refused as error:
            raise EndpointError(str(error)) from error


class _Run:
    """One run: a fresh state, fresh processes, the conversation, the check."""

    def __init__(self, trial: Trial, cell: Cell, task: Task, folder: Path) -> None:
        self._trial, self._cell, self._task, self._folder = trial, cell, task, folder
        self._began, self._usage = datetime.now(UTC).isoformat(), Usage()
        self._model_s = self._tool_s = 0.0
        self._turns = self._calls = self._failed_calls = self._recorded = 0
        self.reason: str | None = None

    async def run(self) -> None:
        problem: Exception | None = None
        answers: list[str] = []
        with self._task.open(self._folder) as state, (self._folder / "stderr.log").open("w") as log:
            async with connected(self._cell.arm, self._task, state, log) as session:
                try:
                    await self._converse(state, session, answers)
                except Refused as error:
                    self.reason = f"the endpoint refused the conversation: {error}"
                except (BudgetSpent, EndpointError) as error:  # the connections are closed first
                    problem = error
            if problem is not None:
                raise problem
            self.reason = self.reason or await to_thread.run_sync(state.check, answers)
        self._trial.records.add(
            "run",
            **self._common(),
            passed=self.reason is None,
            reason=self.reason,
            answers=answers,
            turns=self._turns,
            calls=self._calls,
            failed_calls=self._failed_calls,
            usage=asdict(self._usage),
            cost=self._usage.cost(self._trial.prices),
            seconds=round(self._model_s + self._tool_s, 3),
            tool_seconds=round(self._tool_s, 3),
        )

    async def _converse(self, state: Opened, session: Session, answers: list[str]) -> None:
        system = "\n".join(filter(None, (SYSTEM, self._task.system, session.instructions)))
        conversation = Conversation(system, [])
        for number, text in enumerate(self._task.messages):
            state.before_message(number)
            conversation.messages.append({"role": "user", "content": text})
            for _ in range(MAX_TURNS):
                conversation.tools = [  # an arm that defers definitions has more of them later
                    Definition(it["name"], it["description"] or "", it["inputSchema"]) for it in session.definitions
                ]
                reply = await self._ask(conversation)
                if not reply.requests:
                    break
                await self._call(session, conversation, reply)
            else:
                self.reason = f"no answer after {MAX_TURNS} requests"
                return
            answers.append(reply.text)

    async def _ask(self, conversation: Conversation) -> Reply:
        """The reply, which is added to the conversation."""
        first = {"system": conversation.system, "tools": [asdict(it) for it in conversation.tools]}
        said = conversation.messages[self._recorded :]
        head = {} if self._recorded else first
        reply = await self._trial.ask(conversation, **self._common(), **head, said=said)
        conversation.messages.append(reply.message)
        self._recorded = len(conversation.messages)
        self._turns += 1
        self._usage += reply.usage
        self._model_s += reply.seconds
        return reply

    async def _call(self, session: Session, conversation: Conversation, reply: Reply) -> None:
        results = []
        for request in reply.requests:
            started = time.monotonic()
            text, failed = await call(session, request.name, request.arguments)
            self._tool_s += time.monotonic() - started
            self._calls += 1
            self._failed_calls += failed
            results.append((request, text, failed))
        conversation.messages += self._trial.endpoint.wire.results(results)

    def _common(self) -> dict[str, Any]:
        cell = self._cell
        return {"cell": cell.key, "task": cell.task, "arm": cell.arm, "run": cell.number, "began": self._began}
