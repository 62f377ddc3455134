"""From which number of items or size of results on a program is cheaper: tasks that grow, and their picture as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.tasks.reducing import TASKS
from benchmarks.tasks.report import OURS
from benchmarks.tasks.task import Call, Task, says
from benchmarks.tasks.world import LOG, READINGS, TRAIL, VALUES

ARMS = {"direct": "#b45309", "deferred": "#a21caf", OURS: "#1d4ed8"}
"""The arms of the curves, and their colours."""
_BASE = {task.name: task for task in TASKS}


@dataclass(frozen=True)
class Curve:
    title: str
    steps: Sequence[int]
    task: Mapping[int, Task]
    """By step."""


def curves() -> list[Curve]:
    """Calls made at once, calls of which each needs the last one's result, and one call with a growing result."""
    at_once, in_turn, sizes = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 6, 8), (5, 10, 25, 50, 100, 200, 400)
    return [
        Curve("files read at once", at_once, {number: _at_once(number) for number in at_once}),
        Curve("files that lead to the next", in_turn, {number: _in_turn(number) for number in in_turn}),
        Curve("lines of one result", sizes, {number: _lines(number) for number in sizes}),
    ]


def _at_once(number: int) -> Task:
    names = list(READINGS)[:number]
    program = f"""\
from servers.filesystem import read_text_file
highest = []
for number in range(1, {number + 1}):
    text = read_text_file(path=f"/data/files/readings/station-{{number:02}}.csv")["content"]
    highest.append(max(float(line.split(",")[1]) for line in text.splitlines()[1:]))
max(highest)
"""
    calls = tuple(Call("filesystem/read_text_file", {"path": f"/data/files/readings/{name}"}) for name in names)
    return _grown("warmest-station", (calls,), program, max(max(READINGS[name]) for name in names))


def _in_turn(number: int) -> Task:
    program = _BASE["trail"].programs[0].replace('while name != "none":', f"for _ in range({number}):")
    return _grown("trail", _BASE["trail"].direct[:number], program, sum(VALUES[name] for name in TRAIL[:number]))


def _lines(number: int) -> Task:
    program = f"""\
from servers.filesystem import read_text_file
lines = read_text_file(path="/data/files/logs/app.log", head={number})["content"].splitlines()
len([line for line in lines if line.split()[2] == "ERROR"])
"""
    call = Call("filesystem/read_text_file", {"path": "/data/files/logs/app.log", "head": number})
    return _grown("log-errors", ((call,),), program, sum(line.split()[2] == "ERROR" for line in LOG[:number]))


def _grown(name: str, direct: tuple[tuple[Call, ...], ...], program: str, answer: float) -> Task:
    needed = ("filesystem/read_text_file",)
    return replace(
        _BASE[name], direct=direct, programs=(program,), answer=f"{answer}.", check=says(answer), needed=needed
    )


def break_even(curve: Curve, costs: Mapping[str, Sequence[float]]) -> str:
    """From which step on a program is not dearer than calls, as a sentence."""
    found = []
    for arm in (arm for arm in ARMS if arm != OURS):
        pays = [step for step, one, ours in zip(curve.steps, costs[arm], costs[OURS], strict=True) if ours <= one]
        found.append(f"over {arm} from {pays[0]} on" if pays else f"not over {arm}")
    return f"{curve.title.capitalize()}: a program pays {', '.join(found)}."


_WIDTH, _HEIGHT, _LEFT, _TOP = 300, 210, 62, 34


def picture(measured: Sequence[tuple[Curve, Mapping[str, Sequence[float]]]]) -> str:
    """All curves beside each other, on logarithmic axes; `measured` has the costs of each arm by step."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(measured) * (_WIDTH + _LEFT)} {_HEIGHT + 90}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (curve, costs) in enumerate(measured):
        parts += _panel(number * (_WIDTH + _LEFT) + _LEFT, curve, costs)
    for number, (arm, colour) in enumerate(ARMS.items()):
        parts.append(f'<text x="{_LEFT + 170 * number}" y="{_HEIGHT + 82}" fill="{colour}">— {arm}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(left: int, curve: Curve, costs: Mapping[str, Sequence[float]]) -> list[str]:
    every = [cost for each in costs.values() for cost in each]
    low, high = math.log(min(every) / 1.1), math.log(max(every) * 1.1)
    first, last = math.log(curve.steps[0]), math.log(curve.steps[-1])

    def x(step: float) -> float:
        return left + (math.log(step) - first) / (last - first) * (_WIDTH - 30)

    def y(cost: float) -> float:
        return _TOP + (high - math.log(cost)) / (high - low) * _HEIGHT

    bottom = _TOP + _HEIGHT
    parts = [
        f'<text x="{left}" y="20" font-weight="bold">{curve.title}</text>',
        f'<path d="M{left},{_TOP} V{bottom} H{left + _WIDTH - 30}" fill="none" stroke="#777"/>',
    ]
    for step in curve.steps:
        parts.append(f'<text x="{x(step):.0f}" y="{bottom + 18}" text-anchor="middle">{step}</text>')
    for cost in (min(every), math.sqrt(min(every) * max(every)), max(every)):
        parts.append(f'<text x="{left - 6}" y="{y(cost) + 4:.0f}" text-anchor="end">{cost:,.0f}</text>')
    for arm, values in costs.items():
        points = " ".join(f"{x(step):.1f},{y(cost):.1f}" for step, cost in zip(curve.steps, values, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{ARMS[arm]}" stroke-width="2"/>')
    return parts
