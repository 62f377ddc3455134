"""A task: what a person asks, on which servers, how it is solved, and the check that says whether it is.

Prompts, arguments and programs name the data as `/data` and the web site as `http://site.example`; `Place.real` puts in
where a run has them, and `Place.shown` takes that out again before anything is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Winner = Literal["direct", "tie", "code"]
Shape = Literal[
    "single lookup",
    "few lookups",
    "read and judge",
    "two steps",
    "reduce",
    "chain",
    "fan-out",
    "join over servers",
    "bulk write",
    "forbidden write",
    "recovery",
    "discovery",
]
_ID = re.compile(r"\bx[0-9a-f]{12}\b")
"""The id of an execution, another each time."""
MAX_ANSWER_CHARACTERS = 800
"""A longer one is a dump of data, which might contain every answer."""


@dataclass(frozen=True)
class Place:
    """The data of one run: a folder of its own."""

    folder: Path
    site: str = "http://site.example"
    """The address of the web site that the server `fetch` reads."""

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def database(self) -> Path:
        return self.folder / "orders.db"

    @property
    def memory(self) -> Path:
        return self.folder / "memory.jsonl"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def real(self, text: str) -> str:
        return text.replace("/data", str(self.folder)).replace("http://site.example", self.site)

    def shown(self, text: str) -> str:
        text = text.replace(str(self.folder), "/data").replace(self.site, "http://site.example")
        return _ID.sub("xf303edf2660c", text)


@dataclass(frozen=True)
class Call:
    """A call of a server's tool."""

    tool: str
    """`server/tool`."""
    arguments: dict[str, Any]

    @property
    def server(self) -> str:
        return self.tool.partition("/")[0]

    @property
    def name(self) -> str:
        return self.tool.partition("/")[2]


def program_of(calls: Sequence[Call]) -> str:
    """A program that makes these calls one after the other."""
    lines = [f"from servers.{it.server} import {it.name}" for it in calls]
    lines += [f"{it.name}({', '.join(f'{name}={value!r}' for name, value in it.arguments.items())})" for it in calls]
    return "\n".join(lines)


@dataclass(frozen=True)
class Wrong:
    """A solution that the check must refuse."""

    answer: str
    turns: tuple[tuple[Call, ...], ...] = ()


Check = Callable[[Place, str], str | None]
"""From the data after a run and the answer, the reason why the task is not solved."""


@dataclass(frozen=True)
class Task:
    name: str
    shape: Shape
    prompt: str
    servers: tuple[str, ...]
    expected: Winner
    """Which is cheaper, calls or a program; written before anything was measured."""
    needed: tuple[str, ...]
    """`server/tool` of all tools that a solution needs."""
    search: str
    """What a model searches for when it knows no tool."""
    direct: tuple[tuple[Call, ...], ...]
    """The reference solution by calls: turns of calls that are made at once."""
    programs: tuple[str, ...]
    """The reference solution by programs, one for each turn."""
    answer: str
    """What the model says in the end, in every arm."""
    check: Check
    wrong: Mapping[str, Wrong]
    is_judged: bool = False
    """The model answers from what it has read; else the check looks at the last program's result, not at `answer`."""
    plain_programs: tuple[str, ...] = ()
    """In place of `programs` where a tool's result stays the text that the server gave."""
    permissions: Mapping[str, Any] = field(default_factory=dict)
    """What the person has forbidden, or wants to be asked for: `permissions` of upstream.yaml. An arm without rules has
    what its host can do: whole tools that are denied."""
    forbidden: Call | None = None
    """A call that the person has forbidden: it is tried, and has to reach no server."""


def says(*expected: str | float) -> Check:
    """A check of the answer alone: it has all of these words (in any case) and numbers (up to 0.005)."""

    def check(place: Place, answer: str) -> str | None:
        return missing(answer, *expected)

    return check


def missing(answer: str, *expected: str | float) -> str | None:
    """What an answer lacks, as a reason."""
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return f"the answer has {len(answer)} characters, which is no answer"
    numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3}\b)", "", answer))]
    for value in expected:
        if isinstance(value, str):
            before = r"(?<!\d)" if value[0].isdigit() else r"(?<!\w)"
            if not re.search(rf"{before}{re.escape(value)}(?!\w)", answer, re.IGNORECASE):
                return f"the answer lacks {value!r}"
        elif not any(abs(number - value) < 0.005 for number in numbers):
            return f"the answer lacks {value}"
    return None
