"""One task in one arm, on fresh data with fresh processes, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from benchmarks.tasks.arms import opened
from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.servers import MANY, recorded
from benchmarks.tasks.sessions import Session, Turn
from benchmarks.tasks.task import Call, Task, Wrong
from benchmarks.tasks.world import fresh_place, web_site
from tests.vocabulary import tokens_of

READ, WRITE, OUTPUT = 0.1, 1.25, 5.0
"""Prices of a token that the cache has, of one that is written to it, and of one of the model, in those of an input
token."""


@dataclass(frozen=True)
class Figures:
    """Exact ones, but for `tool_seconds`."""

    definitions: int
    """Tokens of the definitions and instructions that the model has at first."""
    requests: int
    """Tokens that the model writes: calls, programs, the answer."""
    results: int
    """Tokens of what calls answer."""
    turns: int
    """Messages of the model, the answer included."""
    calls: int
    """Calls that reached a server."""
    uncached: float
    """Cost in input tokens, where each turn pays for all that came before it."""
    cached: float
    """The same with a cache of prompts that is empty at first."""
    recall: float | None
    is_forbidden_call_blocked: bool | None
    """None if the task forbids no call."""
    tool_seconds: float


@dataclass(frozen=True)
class Run:
    answer: str
    fault: str | None
    """Why the task is not solved."""
    figures: Figures


async def run(arm: str, task: Task, log: TextIO) -> Run:
    """The reference solution.

    Raises:
        Unavailable: PyPI or npm can't be had.
    """
    with web_site() as site, fresh_place(site) as place:
        async with opened(arm, task, place, log) as session:
            answer = await session.solve()
            calls, fault = recorded(place), task.check(place, answer)
            blocked = None
            if task.forbidden is not None:
                await session.attempt(task.forbidden)
                blocked = task.forbidden not in recorded(place)
        return Run(answer, fault, _figures(session, calls, blocked))


async def run_wrong(task: Task, wrong: Wrong, log: TextIO) -> str | None:
    """Make the calls of a wrong solution; the reason why the check refuses it."""
    with web_site() as site, fresh_place(site) as place:
        if wrong.turns:
            async with opened("direct", task, place, log) as session:
                await session.turns_of(wrong.turns)
        return task.check(place, wrong.answer)


async def unreached(arm: str, log: TextIO) -> list[str]:
    """The tools of all servers that the servers list, and an arm does not reach."""
    task = next(task for task in TASKS if task.servers == MANY)
    with fresh_place() as place:
        async with opened("direct", task, place, log) as direct:
            tools = [each["name"].replace("__", "/") for each in direct.definitions]
        async with opened(arm, task, place, log) as session:
            return await session.missing(tools)


def _figures(session: Session, calls: Sequence[Call], blocked: bool | None) -> Figures:
    definitions = tokens_of(json.dumps(session.definitions) + session.instructions)
    written = [*map(_written, session.turns), tokens_of(session.task.answer)]
    read = [*(sum(tokens_of(answer.text) for answer in turn.answers) for turn in session.turns), 0]
    uncached, cached = cost(definitions + tokens_of(session.task.prompt), written, read)
    return Figures(
        definitions,
        sum(written),
        sum(read),
        len(written),
        len(calls),
        uncached,
        cached,
        session.recall,
        blocked,
        session.tool_seconds,
    )


def _written(turn: Turn) -> int:
    return sum(tokens_of(json.dumps({"name": each.name, "arguments": each.arguments})) for each in turn.requests)


def cost(first: int, written: Sequence[int], read: Sequence[int]) -> tuple[float, float]:
    """Cost of a session in input tokens, without and with caching: `first` tokens before the first turn, and for each
    turn what the model writes and then reads."""
    uncached = cached = 0.0
    known, new = 0, first
    for out, results in zip(written, read, strict=True):
        uncached += known + new + OUTPUT * out
        cached += READ * known + WRITE * new + OUTPUT * out
        known, new = known + new, out + results
    return uncached, cached
