"""The type checker's process: what it gets, what it may use, and that the product goes on without it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.executions.preflight import checker as module
from codemode_server.executions.preflight.checker import TypeChecker, find_executable

from .kit import checked, lines, preflight

linux = pytest.mark.skipif(not Path("/proc/self").exists(), reason="what a process has is read from /proc")
WRONG = "def f(a: int) -> None: ...\nf('x')\n"
PROGRAM = "from servers.github import get_issue\nget_issue('a', 1)['titel']"
OWN = "from servers.github import get_issue\nget_issue('a', nummer=1)"


@asynccontextmanager
async def warm(executable: Path | None = None, *, seconds: float = 20) -> AsyncIterator[TypeChecker]:
    made = TypeChecker(executable, seconds=seconds)
    try:
        yield made
    finally:
        await made.aclose()


def stand_in(folder: Path, body: str) -> Path:
    """A program in the place of the type checker."""
    path = folder / "ty"
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def test_one_process_answers_for_many_texts_and_ends_with_the_product() -> None:
    async with warm() as checker:
        assert checker.pid is None, "nothing starts before the first text"
        for _ in range(3):
            found = await checker.diagnostics(WRONG)
            assert [one.line for one in found or []] == [2]
        first = checker.pid
        assert first is not None
        assert await checker.diagnostics("x = 1") == []
        assert checker.pid == first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


@linux
async def test_the_process_has_no_secret_no_file_of_ours_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_canary")
    async with warm() as checker:
        await checker.diagnostics(WRONG)
        proc = Path(f"/proc/{checker.pid}")
        environment = (proc / "environ").read_bytes()
        names = {entry.partition(b"=")[0].decode() for entry in environment.split(b"\0") if entry}
        of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
        assert names - of_the_shell == {"HOME", "XDG_CONFIG_HOME", "TY_LOG", "TY_MAX_PARALLELISM"}
        assert b"canary" not in environment
        folder = (proc / "cwd").readlink()
        assert folder != Path.cwd()
        assert [path.name for path in sorted(folder.rglob("*")) if path.is_file()] == ["pyvenv.cfg", "ty.toml"]
        limits = {line[:26].strip(): line[26:47].strip() for line in (proc / "limits").read_text().splitlines()}
        assert limits["Max core file size"] == "0"
        assert limits["Max file size"] == "0"
        assert int(limits["Max address space"]) == 2 * 2**30
        assert int(limits["Max cpu time"]) == 60
        assert os.getsid(checker.pid or 0) == checker.pid, "a session of its own"
    assert not folder.exists()


async def test_nothing_of_one_text_is_there_for_the_next() -> None:
    async with warm() as checker:
        assert await checker.diagnostics("secret_name = 1\n") == []
        found = await checker.diagnostics("from program1 import secret_name\nimport source.program1\nsecret_name\n")
        assert {one.line for one in found or []} == {1, 2}


@linux
async def test_a_process_that_was_killed_is_replaced() -> None:
    async with warm() as checker:
        await checker.diagnostics(WRONG)
        first = checker.pid
        os.kill(first or 0, 9)
        assert await checker.diagnostics(WRONG) is None, "this one runs unchecked"
        assert len(await checker.diagnostics(WRONG) or []) == 1
        assert checker.pid != first


async def test_a_process_that_has_read_many_texts_or_grown_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with warm() as checker:
        monkeypatch.setattr(module, "MAX_TEXTS", 2)
        pids = []
        for _ in range(4):
            assert len(await checker.diagnostics(WRONG) or []) == 1
            pids.append(checker.pid)
        assert pids[0] is not None
        assert pids[1] is None
        assert pids[2] not in (None, pids[0])
        assert pids[3] is None


ODD = {
    "hangs": "time.sleep(60)",
    "says nonsense": "print('hello', flush=True); time.sleep(60)",
    "says no message": "print('Content-Length: 2\\r\\n\\r\\n[]', end='', flush=True); time.sleep(60)",
    "says a size too large": "print('Content-Length: 99999999999\\r\\n\\r\\n', end='', flush=True); time.sleep(60)",
    "speaks another encoding": (
        'print(\'Content-Length: 37\\r\\n\\r\\n{"id": 1, "result": {"capabilities":{}}}\', end=\'\', flush=True)'
    ),
    "never stops talking": "\nwhile True: print('Content-Length: 2\\r\\n\\r\\n{}', end='', flush=True)",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
async def test_whatever_the_process_does_the_program_is_checked_by_our_own_part(tmp_path: Path, body: str) -> None:
    async with warm(stand_in(tmp_path, body), seconds=0.5) as checker:
        found = await checked(OWN, checker=checker)
        assert len(found.errors) == 1
        found = await checked(PROGRAM, checker=checker)
        assert found.errors == ()
        assert checker.pid is None, "it was ended"


def test_the_one_that_is_installed_with_us_is_used_and_never_one_from_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_executable()
    assert found is not None
    assert found.parent == Path(sys.executable).parent


N = 60_000
HOSTILE = {
    "nothing": "",
    "open parentheses": "(" * N,
    "parentheses": "(" * 190 + ")" * 190,
    "attributes": "a" + ".a" * 30_000,
    "a sum that can't be written anew": f"{OWN}\n" + "1" + "+1" * 900,
    "more lines than are read": "a = 1\n" * 100_000,
    "nested functions": "".join(" " * n + "def f():\n" for n in range(99)) + " " * 99 + "pass",
    "f-strings": 'f"{' * 50 + "1",
    "a NUL": "a\0b",
    "lone surrogates": "x = '\ud800'\n\ud800",
    "a huge number": "from servers.github import search\nsearch(" + "9" * 4_000 + ")",
    "many tools' calls": "from servers.github import search\n" + "search(5)\n" * 3_000,
    "many unknown names": "from servers.github import boom\n" + "\n".join(f"n{n}" for n in range(5_000)),
    "many calls and tries": "from servers.github import boom\n"
    + "try: pass\nexcept ValueError: pass\n" * 1_000
    + "boom(a=1);" * 3_000,
    "many functions": "from servers.github import boom\n"
    + "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(1_500))
    + "try:\n f0()\nexcept Exception: pass\nboom(a=1)",
    "deep data": "from servers.github import update\nupdate(" + "[" * 90 + "]" * 90 + ")",
    "words of ours": "from servers.github import boom\n_cm_any = 1\nclass _CmPending: pass\nboom()",
    "words of the protocol": "from servers.github import search\nsearch('Content-Length: 5\\r\\n\\r\\n')",
    "a configuration in a comment": "# /// script\n# [tool.ty.rules]\n# all = 'ignore'\n# ///\n" + PROGRAM,
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_program_is_read_in_bounded_time_and_harms_no_other(code: str) -> None:
    async with preflight() as check:
        with anyio.fail_after(20):
            found = await check.check(code)
            assert len(found.message) < 5_000
            assert len("\n".join(found.warning_lines())) < 5_000
        assert lines((await check.check(OWN)).errors), "the positive control: the next one is checked"
