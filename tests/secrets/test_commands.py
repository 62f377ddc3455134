"""A command that prints a secret: what it prints is the value, and no misbehaviour of it costs more than its bounds.

The commands are real processes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.commands import output_of
from tests.processes import all_gone
from tests.waiting import until

SECRET = "ghp_Z7kQ9xw41LmN0pR2"

Run = Callable[..., Awaitable[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    async def run(command: str, *, seconds: float = 20.0) -> str:
        with anyio.fail_after(60):
            work = partial(output_of, command, env=os.environ, cwd=tmp_path, seconds=seconds)
            return await anyio.to_thread.run_sync(work)

    return run


async def failure(run: Run, command: str, *, seconds: float = 20.0) -> str:
    with pytest.raises(SecretUnavailable) as raised:
        await run(command, seconds=seconds)
    assert SECRET not in str(raised.value)
    return str(raised.value)


async def test_the_value_is_all_that_it_prints_without_white_space_around_it(run: Run) -> None:
    assert await run("printf '  a b\\nc\\n\\n'") == "a b\nc"


async def test_it_runs_in_the_folder_of_the_file_and_with_our_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE", "here")
    (tmp_path / "tool").write_text('#!/bin/sh\necho "$PROBE"; pwd')
    (tmp_path / "tool").chmod(0o755)
    assert await run("./tool") == f"here\n{tmp_path}"


async def test_there_is_no_shell(run: Run, tmp_path: Path) -> None:
    assert await run("echo $HOME; touch made `id` | cat > made") == "$HOME; touch made `id` | cat > made"
    assert not (tmp_path / "made").exists()
    assert await run("sh -c 'echo made | cat'") == "made", "control"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-program-here x", "the command 'no-such-program-here' can't be started: No such file or directory"),
        ("sh -c 'exit 3'", "the command 'sh' ended with code 3 (run it yourself to see why)"),
        ("true", "the command 'true' printed nothing"),
        ("printf '\\377'", "the command 'printf' printed something that is not UTF-8"),
        ("printf 'a\\0b'", "the command 'printf' printed a NUL character"),
        ("echo 'a", "a quote in a command is not closed"),
        ("", "a command is empty"),
        ("echo \0", "the command 'echo' can't be started: it is no valid command"),
    ],
)
async def test_what_is_wrong_is_said_with_the_program_alone(run: Run, command: str, reason: str) -> None:
    assert await failure(run, command) == reason


async def test_nothing_that_it_prints_is_in_the_message(run: Run) -> None:
    """A part of a secret would not be recognised."""
    code = f"import sys; print('{SECRET}'); sys.exit('no access with …{SECRET[-8:]}')"
    said = await failure(run, f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}")
    assert said.endswith("ended with code 1 (run it yourself to see why)")


class TestBounds:
    async def test_more_than_64_kib_are_refused_without_reading_on(self, run: Run) -> None:
        """A gigabyte, or without end."""
        assert "printed more than 64 KiB" in await failure(run, "yes")
        assert "printed more than 64 KiB" in await failure(run, "head -c 65537 /dev/zero")
        assert len(await run("sh -c 'head -c 65536 /dev/zero | tr \\\\0 x'")) == 65_536, "control"

    async def test_one_that_never_ends_is_ended_with_its_children(self, run: Run, tmp_path: Path) -> None:
        command = "sh -c 'sleep 1000 & echo $! > child; echo $$ > self; wait'"
        assert "did not end within 5 s" in await failure(run, command, seconds=5.0)
        for name in ("child", "self"):
            await all_gone(int((tmp_path / name).read_text()))

    async def test_one_that_runs_when_the_product_is_killed_is_ended(self, tmp_path: Path) -> None:
        """It is watched a moment after it was started, so it says only then that it runs."""
        command = "sh -c 'trap \"\" TERM; sleep 0.5; echo $$ > part; mv part pid; while :; do sleep 1; done'"
        code = f"output_of({command!r}, env=os.environ, cwd=pathlib.Path({str(tmp_path)!r}))"
        product = await anyio.open_process(
            [sys.executable, "-c", f"import os, pathlib; from {output_of.__module__} import output_of; {code}"]
        )
        async with product:
            await until((tmp_path / "pid").exists)
            product.kill()
        await all_gone(int((tmp_path / "pid").read_text()))

    async def test_a_grandchild_that_holds_the_pipes_delays_nothing_and_is_ended(
        self, run: Run, tmp_path: Path
    ) -> None:
        assert await run("sh -c 'sleep 1000 & echo $! > child; echo value'") == "value"
        await all_gone(int((tmp_path / "child").read_text()))
