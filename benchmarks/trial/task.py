"""One task of a trial, whoever wrote it: what the user says, the servers, the check, and a reference solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Winner = Literal["direct", "tie", "code"]


@dataclass(frozen=True)
class Call:
    """A call of a server's tool."""

    server: str
    tool: str
    arguments: Mapping[str, Any]


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
    check: Callable[[Sequence[str]], str | None]
    """From the state and the answers, one for each message: the reason why the task is not solved, or None."""
    before_message: Callable[[int], None] = lambda _number: None
    """Called before each message of the user, with its number from 0."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where this run has what the texts of the task name: `/data` is a folder of its own."""


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
    sections: Mapping[str, Any] = field(default_factory=dict)
    """Further sections of codemode-server's configuration."""
    places: tuple[str, ...] = ()
    """The keys of `Opened.places`."""

    def frozen(self) -> dict[str, Any]:
        """What the plan's hash covers, beside the digest of the code."""
        named = {name: getattr(self, name) for name in ("suite", "expected", "system")}
        return {**named, "messages": list(self.messages), "sections": dict(self.sections)}


def placed(text: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text
