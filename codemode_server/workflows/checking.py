"""Checks a workflow against the tools there are: the program that it becomes, with the check that all programs get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from codemode_server.workflows.compiling import CompiledWorkflow
from codemode_server.workflows.steps import PERSON


class FoundAtLine(Protocol):
    """A finding of the check of programs."""

    @property
    def line(self) -> int: ...
    @property
    def message(self) -> str: ...


class CheckedProgram(Protocol):
    """The result of that check."""

    @property
    def errors(self) -> Sequence[FoundAtLine]: ...
    @property
    def warnings(self) -> Sequence[FoundAtLine]: ...


class ServersByName(Protocol):
    """The catalog."""

    @property
    def by_name(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a workflow."""

    workflow: str
    text: str
    """With the file and the line."""
    is_error: bool = True


async def check_workflow(
    compiled: CompiledWorkflow, check: Callable[[str], Awaitable[CheckedProgram]], catalog: ServersByName
) -> list[Problem]:
    """Certain and possible errors."""
    found: list[Problem] = []
    if f"servers.{PERSON}" in compiled.modules and PERSON not in catalog.by_name:
        message = f"`ask` needs a server named {PERSON!r}; add `{PERSON}: {{questions: true}}` under `servers:`"
        return [Problem(compiled.name, f"{compiled.file}: {message}")]
    checked = await check(compiled.check_source)
    for findings, is_error in ((checked.errors, True), (checked.warnings, False)):
        for one in findings:
            line = compiled.check_lines.get(one.line)
            place = f"{compiled.file}:{line}" if line else compiled.file
            found.append(Problem(compiled.name, f"{place}: {one.message}", is_error))
    return found
