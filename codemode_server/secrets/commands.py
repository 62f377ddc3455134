"""Runs a command of the person that prints a secret: without a shell, with bounded time and output.

Nothing that it prints is in a message: its standard output is the secret, and its standard error may show a part of
that. The command has our environment, no input and no terminal, and a group of its own; what it leaves running in that
group is ended, so that a process that holds a pipe open delays nobody, and all of it if the product is killed.
"""

from __future__ import annotations

import errno
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.processes.child_process import kill_group, start_blocking
from codemode_server.processes.orphan_reaper import Reaper

COMMAND_S = 10.0
MAX_OUTPUT_BYTES = 64 * 2**10
_DRAIN_S = 0.5
"""How long to read on after the command has ended."""


class CommandRun:
    """One run, which another thread may end. None of its processes is left after `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def start(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
        """Raises `OSError`, `ValueError`: it can't be started."""
        with self._lock:
            if self._is_ended:
                raise OSError(errno.ECANCELED, "codemode-server needs it no longer")
            self._process = start_blocking(words, env=env, cwd=cwd, stdin=DEVNULL, stderr=DEVNULL)
            return self._process

    def end(self) -> None:
        """Kill it if it runs; it does not start after this. Waits for a start, some milliseconds."""
        with self._lock:
            self._is_ended = True
            if self._process is not None and self._process.returncode is None:
                kill_group(self._process)


def output_of(
    command: str, *, env: Mapping[str, str], cwd: Path, seconds: float = COMMAND_S, run: CommandRun | None = None
) -> str:
    """Output of the command, without white space around it. Blocks; `run` can be ended meanwhile. Raises
    `SecretUnavailable`: it could not be started, failed, took too long, or printed nothing, too much or no text."""
    words = words_of(command)
    shown, reaper = repr(words[0]), Reaper()
    reaper.start()  # first, so that the command is watched as soon as it runs
    try:
        process = (run or CommandRun()).start(words, env, cwd)
    except (OSError, ValueError) as error:
        reaper.stop()
        reason = getattr(error, "strerror", None) or "it is no valid command"
        raise SecretUnavailable(f"the command {shown} can't be started: {reason}") from None
    reaper.watch(process.pid)
    output = bytearray()
    reader = threading.Thread(target=_read, args=(process, output), daemon=True, name="secret")
    reader.start()
    is_late = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        kill_group(process)  # then nothing holds the pipe open
        code = process.wait()
        reaper.stop()
        reader.join(_DRAIN_S)
    if len(output) > MAX_OUTPUT_BYTES:
        raise SecretUnavailable(f"the command {shown} printed more than {MAX_OUTPUT_BYTES // 2**10} KiB")
    if is_late:
        raise SecretUnavailable(f"the command {shown} did not end within {seconds:g} s")
    if code:
        raise SecretUnavailable(f"the command {shown} ended with code {code} (run it yourself to see why)")
    return _text(bytes(output), shown)


def _read(process: subprocess.Popen[bytes], output: bytearray) -> None:
    """Read the output up to its bound, and close it: a command that prints more gets an error."""
    assert process.stdout is not None  # noqa: S101 - it was started with it
    with process.stdout as stdout:
        while len(output) <= MAX_OUTPUT_BYTES and (piece := stdout.read(MAX_OUTPUT_BYTES)):
            output += piece


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


def _text(output: bytes, shown: str) -> str:
    try:
        text = output.decode().strip()
    except UnicodeDecodeError:
        raise SecretUnavailable(f"the command {shown} printed something that is not UTF-8") from None
    if not text:
        raise SecretUnavailable(f"the command {shown} printed nothing")
    if "\0" in text:
        raise SecretUnavailable(f"the command {shown} printed a NUL character")
    return text
