"""One task of a trial, whoever wrote it: what the user says, the servers, the check, and a reference solution.

The arms are those of `benchmarks.tasks`: texts may name the data of a run as `/data`, its `Place` says where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Call, Place, Winner


@dataclass(frozen=True)
class Solution:
    """What a model might do after one message of the user; the scripted driver does it."""

    calls: Sequence[Sequence[Call]]
    """Turns of the arm with direct tools, each with its calls."""
    programs: Sequence[str]
    """Turns of the arms with `execute_code`."""
    answer: str = ""
    """What is said in the end; empty for the text of the last result."""
    program_answer: str | None = None
    """The same in the arms with `execute_code`, where it differs."""


@dataclass(frozen=True)
class Opened:
    """One run's state of a task."""

    servers: Mapping[str, Mapping[str, Any]]
    """Their entries, as in an upstream.yaml."""
    place: Place
    check: Callable[[Sequence[str]], str | None]
    """From the state and the answers, one for each message: the reason why the task is not solved, or None."""
    before_message: Callable[[int], None] = lambda _number: None
    """Called before each message of the user, with its number from 0."""


@dataclass(frozen=True)
class Task:
    name: str
    """Unique among all suites."""
    suite: str
    messages: tuple[str, ...]
    """What the user says: the next one after each answer of the model."""
    expected: Winner
    """Written before anything was measured."""
    open: Callable[[Path], AbstractContextManager[Opened]]
    """Writes a fresh state into a folder."""
    system: str = ""
    """What the model knows before the user's first message: the rules of a shop, for instance."""
    solution: Sequence[Solution] = ()
    """One for each message."""
    permissions: Mapping[str, Any] = field(default_factory=dict)
    """What the person has forbidden: `permissions` of upstream.yaml."""
    needed: tuple[str, ...] = ()
    """`server/tool` of those that a solution needs; an arm begins when it has them."""
    version: str = ""
    """Changes with what the digests of our code don't cover, such as the checks of somebody else."""

    def frozen(self) -> dict[str, Any]:
        """What the plan's hash covers, beside the digest of the code."""
        named = {name: getattr(self, name) for name in ("suite", "expected", "system", "version")}
        return {**named, "messages": list(self.messages), "permissions": dict(self.permissions)}


@dataclass(frozen=True)
class OtherPlace(Place):
    """The data of a task whose texts don't name it."""

    def real(self, text: str) -> str:
        return text

    def shown(self, text: str) -> str:
        return text
