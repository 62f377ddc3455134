"""TASKS.md from what was measured, and what it says of a task in an arm."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.report import table
from benchmarks.tasks.arms import ARMS
from benchmarks.tasks.catalog import TASKS
from benchmarks.tasks.run import Run
from benchmarks.tasks.task import Task, Winner

PAGE = Path(__file__).parents[1] / "TASKS.md"
PICTURE = "tasks.svg"
OURS = "codemode-server"
TIE = 1.25
"""A cost that is less than this factor from the other one is a tie."""
HEADS = ["task", "arm", "definitions", "requests", "results", "turns", "calls", "uncached", "cached", "seconds", "", ""]
_ROW = re.compile(r"^\| ([\w-]+) \| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)


Results = Mapping[tuple[str, str], Run]
"""By the names of task and arm."""


def exact(page: str) -> dict[tuple[str, str], tuple[int, ...]]:
    """The exact figures of each task in each arm: tokens of definitions, requests and results, turns, calls."""
    return {(task, arm): tuple(map(int, numbers)) for task, arm, *numbers in _ROW.findall(page)}


def page(results: Results, curves: Sequence[str], measured_by: str) -> str:
    """All of TASKS.md; `curves` says where each curve breaks even."""
    ordered = sorted(TASKS, key=lambda task: _ratio(results, task, OURS, "deferred"), reverse=True)
    shapes = list(dict.fromkeys(task.shape for task in TASKS))
    winners = [(task, winner(_ratio(results, task, OURS))) for task in ordered]
    return "\n".join(
        [
            "# Tasks: calls or programs\n",
            measured_by,
            INTRODUCTION,
            "## Losses first\n",
            f"codemode-server is {_count(results, 'deferred')} than deferred definitions, and "
            f"{_count(results, 'direct')} than direct tools; what is left is within a factor of {TIE}. A cost over 1 "
            "is a loss. Measured: the winner over direct tools; what was expected before anything was measured is "
            f"right in {sum(task.expected == found for task, found in winners)} of {len(TASKS)}.\n",
            table(
                ["task", "shape", "over deferred", "over direct", "uncached", "turns", "time", "expected", "measured"],
                [_task_row(results, task, found) for task, found in winners],
            ),
            "Over deferred, over direct: the cost with caching of codemode-server over that of the arm; uncached: over "
            "direct without caching. Turns: of the direct arm, then of codemode-server. Time: how long the model waits "
            "for tools, over the direct arm's; of a shared machine, so read only its size.\n",
            "## By shape\n",
            "Cost with caching over that of the direct arm, geometric mean of a shape's two tasks; an arm that does "
            "not solve both has no figure.\n",
            table(
                ["shape", *list(ARMS)[1:]],
                [[shape, *(_shape_cell(results, shape, arm) for arm in list(ARMS)[1:])] for shape in shapes],
            ),
            _solved(results),
            "## Where a program begins to pay\n",
            f"![Cost over the number of files read at once, of files that lead to the next, and of lines]({PICTURE})\n",
            "Cost with caching, in input tokens, on logarithmic axes. " + " ".join(curves) + "\n",
            "## Search\n",
            "Share of the needed tools in what the first search finds, over the tasks in which an arm searches; "
            "codemode-server and toolplane search only for tools whose arguments no description shows.\n",
            table(["arm", "tasks with a search", "recall"], _recall_rows(results)),
            "## Forbidden calls\n",
            "After its solution, each arm tries a call that the person has forbidden. The arms direct and deferred "
            "stand for a host that can deny a tool by its name, but has no rules over arguments.\n",
            table(
                ["task", "arm", "the forbidden call"],
                [
                    [task, arm, "blocked" if result.figures.is_forbidden_call_blocked else "**reached the server**"]
                    for (task, arm), result in results.items()
                    if result.figures.is_forbidden_call_blocked is not None
                ],
            ),
            "## All figures\n",
            "Tokens of o200k (the package bpe-openai); calls are those that reached a server; uncached and cached are "
            "costs in input tokens; seconds are those in which the model waits.\n",
            table(HEADS, [_figures_row(task, arm, result) for (task, arm), result in results.items()]),
        ]
    )


INTRODUCTION = """
Twenty-four tasks of our own, two for each of twelve shapes, on published servers with data made from a seed. No model
takes part: each arm makes the turns of one that makes no mistake, and the same check in Python judges all arms by the
state and the answer; wrong solutions, which it refuses, are with the tasks. Each run has fresh data and processes; only
the compiled sandbox of codemode-server is shared. A recorder before each server counts what reaches it. A task has only
the servers that it needs, which favours the direct arm, but for those of `discovery`: ten servers with 209 tools.

- **direct**: the servers' own tools, defined from the start.
- **deferred**: the model has their names; one search by name brings definitions, as in Claude Code.
- **codemode-server**: the model searches for tools whose arguments the description of `execute_code` does not show.
- **codemode-server, tools beside**: eight tools that are read often are also offered directly (`direct`), and used
  where they suffice with at most two calls.
- **FastMCP CodeMode** 4.2.3 and **toolplane** 0.5.2: search, read what the search leaves out, run. Their programs are
  ours with calls in their form, and with other ways to read results that they leave as text.

Cost: a turn pays for all that came before it. Uncached, an input token costs 1; cached, 0.1 if the cache has it and
1.25 to write it, the cache being empty at first. A token of the model's costs 5.
"""


def winner(ratio: float) -> Winner:
    """From the cost of codemode-server over that of calls."""
    return "direct" if ratio > TIE else "code" if ratio < 1 / TIE else "tie"


def _ratio(results: Results, task: Task, arm: str, over: str = "direct") -> float:
    return results[task.name, arm].figures.cached / results[task.name, over].figures.cached


def _task_row(results: Results, task: Task, measured: Winner) -> list[str]:
    ours, direct = results[task.name, OURS].figures, results[task.name, "direct"].figures
    is_timed = direct.tool_seconds > 0.002
    return [
        task.name,
        task.shape,
        f"{_ratio(results, task, OURS, 'deferred'):.2f}",
        f"{_ratio(results, task, OURS):.2f}",
        f"{ours.uncached / direct.uncached:.2f}",
        f"{direct.turns} → {ours.turns}",
        f"{ours.tool_seconds / direct.tool_seconds:.1f}" if is_timed else "–",
        task.expected,
        measured if measured == task.expected else f"**{measured}**",
    ]


def _count(results: Results, over: str) -> str:
    found = [winner(_ratio(results, task, OURS, over)) for task in TASKS]
    return f"dearer in {found.count('direct')} tasks and cheaper in {found.count('code')}"


def _shape_cell(results: Results, shape: str, arm: str) -> str:
    tasks = [task for task in TASKS if task.shape == shape]
    if any(results[task.name, arm].fault for task in tasks):
        return "–"
    return f"{math.exp(sum(math.log(_ratio(results, task, arm)) for task in tasks) / len(tasks)):.2f}"


def _solved(results: Results) -> str:
    failed = [f"{task} by {arm}: {result.fault}" for (task, arm), result in results.items() if result.fault]
    return f"Not solved: {'; '.join(failed)}.\n" if failed else "Every arm solves every task.\n"


def _recall_rows(results: Results) -> list[list[str]]:
    rows = []
    for arm in ARMS:
        found = [
            result.figures.recall
            for (_, other), result in results.items()
            if other == arm and result.figures.recall is not None
        ]
        if found:
            rows.append([arm, str(len(found)), f"{sum(found) / len(found):.2f}"])
    return rows


def _figures_row(task: str, arm: str, result: Run) -> list[str]:
    it = result.figures
    numbers = [it.definitions, it.requests, it.results, it.turns, it.calls, round(it.uncached), round(it.cached)]
    recall = "" if it.recall is None else f"recall {it.recall:.2f}"
    return [task, arm, *map(str, numbers), f"{it.tool_seconds:.2f}", recall, "**not solved**" if result.fault else ""]
