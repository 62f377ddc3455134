"""The twenty tasks, each a program as a model writes it, and what running and exploring them costs and shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.result_types.keys import Tracked, imported_tools, tracked, tracking_program
from benchmarks.result_types.product import Product
from benchmarks.result_types.world import World

TASKS = Path(__file__).with_name("tasks")
TAKE_TEXT_APART = ("t04", "t05", "t06")
"""Programs that go by the layout of a text, which no type tells: a model has to look, or to guess, in any style."""


@dataclass(frozen=True)
class Task:
    """One of them."""

    name: str
    code: str
    """With its places to be filled in."""

    @property
    def takes_text_apart(self) -> bool:
        return self.name.startswith(TAKE_TEXT_APART)

    @property
    def tools(self) -> list[str]:
        return imported_tools(self.code)


@dataclass(frozen=True)
class Run:
    """What was seen of a task."""

    task: Task
    value: Any
    tracked: Tracked
    exploring: tuple[str, str]
    """A program that only prints what each of the tools gives, and the answer to it."""


Fate = Literal["refused", "warned", "unseen"]
"""A mistake was found before anything ran; was told beside what came of it; was not told of."""


def all_tasks() -> list[Task]:
    return [Task(path.stem, path.read_text()) for path in sorted(TASKS.glob("t*.py"))]


async def run_task(product: Product, task: Task) -> Run:
    """Run it as it is, then tracked, then what a model without types runs first.

    Raises:
        ProgramFailed: one of these did not come to its end.
    """
    value, _ = await product.run(task.code)
    seen, _ = await product.run(tracking_program(task.code))
    found = tracked(task.code, seen)
    looking = _looking(found)
    _, answer = await product.run(looking)
    return Run(task, value, found, (_alike(looking, product.world), _alike(answer, product.world)))


def misspelt(run: Run) -> list[str]:
    """The program with one of its keys misspelt, for each key that it uses and does not name in SQL."""
    keys = dict.fromkeys(use.key for use in run.tracked.uses if not use.is_in_query)
    return [re.sub(rf"""(["']){re.escape(key)}\1""", rf"\1{key}_x\1", run.task.code) for key in keys]


async def fate_of(product: Product, code: str) -> Fate:
    """What the product makes of a program with a mistake in it."""
    content, _ = await product.execute(code)
    if content["status"] != "succeeded" and not content["calls"]:
        return "refused"
    has_hint = bool((content.get("error") or {}).get("hint"))
    return "warned" if content.get("warnings") or has_hint else "unseen"


def _alike(text: str, world: World) -> str:
    """As if the world's folder had the same name everywhere, and everything took as long."""
    text = text.replace(str(world.folder), "/home/ada/work")
    return re.sub(r"\bx[0-9a-f]{12}\b", "x0123456789ab", re.sub(r"\b\d[\d.]* (m?s)\b", r"10 \1", text))


def _looking(found: Tracked) -> str:
    """Each tool once, with what the task's own program gave it first."""
    names = list(found.first_calls)
    imports = [f"from servers.{server} import {tool}" for server, tool in (name.split(".") for name in names)]
    prints = [f"print({name.split('.')[1]}({found.first_calls[name]!r}))" for name in names]
    return "\n".join([*imports, *prints])
