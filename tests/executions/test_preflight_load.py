"""The check of large programs leaves other programs their turn: one at a time, without the garbage collector, and not
of programs that are too dense to be written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import anyio
import anyio.lowlevel
import pytest

from codemode_server.executions.preflight.checker import Diagnostic, TypeChecker
from codemode_server.executions.preflight.reading import MAX_CHARACTERS, read

from .kit import preflight

WRONG = "from servers.github import get_issue\nget_issue('a', nummer=1)\n"
LARGE = WRONG + "x = 1\n" * 500


class Counting(TypeChecker):
    """Counts the texts that wait for an answer at once; gives none before `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = anyio.Event()
        self.asked = anyio.Event()
        self.at_once = self.most = 0

    async def diagnostics(self, text: str, stubs: Mapping[str, str] = MappingProxyType({})) -> list[Diagnostic] | None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.asked.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        await self.gate.wait()
        self.at_once -= 1
        return []


@pytest.mark.parametrize(("code", "most"), [(WRONG, 5), (LARGE, 1)], ids=["small, as the control", "large"])
async def test_large_programs_are_checked_one_at_a_time(code: str, most: int) -> None:
    checker = Counting()
    async with preflight(checker=checker) as check, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(check.check, code)
        await checker.asked.wait()
        await anyio.wait_all_tasks_blocked()
        checker.gate.set()
    assert checker.most == most


def test_a_program_of_too_many_parts_is_not_checked() -> None:
    many = {
        "names": "x = [" + "a," * 30_000 + "]",
        "lists": "x = [" + "[]," * 20_000 + "]",
        "ands": "a" + " and a" * 10_500,
    }
    assert all(len(code) < MAX_CHARACTERS for code in many.values())
    assert [name for name, code in many.items() if read(code) is not None] == []
