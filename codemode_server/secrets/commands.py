"""Runs a command of the person that prints a secret: without a shell, with bounded time and output.

Its standard output is the secret, so it is in no message. The end of its standard error is, without what it also
printed to standard output. The command has our environment, no input and no terminal, and a group of its own; what it
leaves running in that group is ended, so that a process that holds a pipe open delays nobody. If we are killed
meanwhile, the reaper ends the group.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio.abc import ByteReceiveStream

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.processes.child_process import ChildProcess, OutputTail
from codemode_server.processes.orphan_reaper import Reaper

COMMAND_S = 10.0
MAX_OUTPUT_BYTES = 64 * 2**10
_MAX_ERROR_BYTES = 4 * 2**10
_SHOWN_CHARACTERS = 300
_DRAIN_S = 0.5
"""How long to read on after the command has exited, if another process holds its pipes."""
_GRACE_S = 0.2
_POLL_S = 0.01


async def output_of(command: str, *, env: Mapping[str, str], cwd: Path, seconds: float = COMMAND_S) -> str:
    """Output of the command, without white space around it. Raises `SecretUnavailable`: it could not be started,
    failed, took too long, or printed nothing, too much or no text."""
    words = words_of(command)
    shown, reaper = repr(words[0]), Reaper()
    reaper.start()
    try:
        child = await ChildProcess.start(words, env=env, cwd=cwd, stdin=DEVNULL)
    except (OSError, ValueError) as error:
        await reaper.aclose()
        reason = getattr(error, "strerror", None) or "it is no valid command"
        raise SecretUnavailable(f"the command {shown} can't be started: {reason}") from None
    output, errors = OutputTail(), OutputTail()
    try:
        reaper.watch(child.pid)
        with anyio.move_on_after(seconds) as in_time:
            await _read_until_exit(child, output, errors)
    finally:
        with anyio.CancelScope(shield=True):
            if await child.end_group(_GRACE_S):
                reaper.forget(child.pid)
            await reaper.aclose()
    if output.is_cut:
        raise SecretUnavailable(f"the command {shown} printed more than {MAX_OUTPUT_BYTES // 2**10} KiB")
    if in_time.cancelled_caught:
        raise SecretUnavailable(f"the command {shown} did not end within {seconds:g} s{_said(errors, output)}")
    if child.returncode:
        raise SecretUnavailable(f"the command {shown} ended with code {child.returncode}{_said(errors, output)}")
    return _text(bytes(output.data), shown, errors)


def words_of(command: str) -> list[str]:
    """The program and its arguments, as a shell would split them; `~` begins the path of a program. On Windows, where
    paths have backslashes, only double quotes join words. Raises `SecretUnavailable`: a quote is not closed, or there
    is nothing."""
    try:
        words = _words_on_windows(command) if sys.platform == "win32" else shlex.split(command)
    except ValueError:
        raise SecretUnavailable("a quote in a command is not closed") from None
    if not words:
        raise SecretUnavailable("a command is empty")
    with suppress(RuntimeError):
        words[0] = str(Path(words[0]).expanduser()) if words[0].startswith("~") else words[0]
    return words


def _words_on_windows(command: str) -> list[str]:
    if command.count('"') % 2:
        raise ValueError
    return [word.replace('"', "") for word in re.findall(r'(?:[^\s"]|"[^"]*")+', command)]


async def _read_until_exit(child: ChildProcess, output: OutputTail, errors: OutputTail) -> None:
    ended: list[OutputTail] = []

    async def read(stream: ByteReceiveStream, into: OutputTail, max_bytes: int) -> None:
        async for chunk in stream:
            into.add(chunk, max_bytes)
            if output.is_cut:
                readers.cancel_scope.cancel()
        ended.append(into)

    async with anyio.create_task_group() as readers:
        readers.start_soon(read, child.stdout, output, MAX_OUTPUT_BYTES)
        readers.start_soon(read, child.stderr, errors, _MAX_ERROR_BYTES)
        while child.returncode is None:  # noqa: ASYNC110 - `wait` also waits for pipes that others hold
            await anyio.sleep(_POLL_S)
        with anyio.move_on_after(_DRAIN_S):
            while len(ended) < 2:  # noqa: ASYNC110 - as above
                await anyio.sleep(_POLL_S)
        readers.cancel_scope.cancel()


def _text(output: bytes, shown: str, errors: OutputTail) -> str:
    try:
        text = output.decode().strip()
    except UnicodeDecodeError:
        raise SecretUnavailable(f"the command {shown} printed something that is not UTF-8") from None
    if not text:
        raise SecretUnavailable(f"the command {shown} printed nothing{_said(errors, OutputTail())}")
    if "\0" in text:
        raise SecretUnavailable(f"the command {shown} printed a NUL character")
    return text


def _said(errors: OutputTail, output: OutputTail) -> str:
    """The end of standard error, for a message, without anything that was printed as the secret."""
    said = errors.text
    for word in sorted({word for word in output.text.split() if len(word) >= 4}, key=len, reverse=True):
        said = said.replace(word, "***")
    said = re.sub(r"\s+", " ", said)
    return f": {said[-_SHOWN_CHARACTERS:]}" if said else ""
