"""Runs an upstream as a child process, with JSON-RPC lines over its stdin and stdout, and ends it.

Unlike `mcp.client.stdio` it hands a message to the call that waits for it in the task that reads, reads lines of many
MiB in linear time, puts the end of the child's stderr into error messages (never into our stderr), ignores other text
on stdout, and ends the child within the 2 s that a host leaves us: stdin closed, 0.5 s, SIGTERM to the group, 0.5 s,
SIGKILL. A line that is too long is thrown away as it comes, and fails the call that it answers; only if that call can't
be told, it ends the connection.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteReceiveStream
from pydantic import Field, field_validator
from pydantic_core import to_json

from codemode_server.domain.tools import STDERR_MARK, STDOUT_MARK
from codemode_server.processes.child_process import ChildProcess, OutputTail
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.processes.stream_readers import BoundedBytes
from codemode_server.support.network_variables import CERTIFICATES, PROXIES
from codemode_server.support.off_loop import LARGE_BYTES, Pace, is_large, read_large, run_large, run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.support.setting_types import Environment, ProblemWithin, Section
from codemode_server.upstreams.answers import ConnectionEnded
from codemode_server.upstreams.messages import MAX_MESSAGE_BYTES, JoinedLines, Unread, parse_line, too_large
from codemode_server.upstreams.transports.registry import Transport, TransportSpec

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

    from codemode_server.upstreams.session import Session

logger = logging.getLogger(__name__)

_MAX_DROPPED_BYTES = 256 * 2**20
"""A line longer than this ends the connection: nothing else can come before its end."""
_ENDS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError)
STDERR_BYTES = 8 * 1024
STDERR_LINES = 50
_STDERR_CHARACTERS = 1_500
"""Maximum of those lines; an error message is cut at its end, which matters most here."""
_STRAY_BYTES = 8 * 1024
_STRAY_CHARACTERS = 200
EXIT_GRACE_S = 0.5
"""From closing stdin to SIGTERM, and from SIGTERM to SIGKILL."""
_POSIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE"),
    *("SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    # Beside those of mcp: without them Docker, npx and shells do not start (docker/mcp-gateway issue 424).
    *("COMSPEC", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "TMP", "WINDIR"),
)
_WHERE_TO_GET = {
    "uvx": "; it comes with uv, see https://docs.astral.sh/uv/",
    "npx": "; it comes with Node, see https://nodejs.org/",
}
_ABOUT_NETWORK = re.compile(
    "certificate|issuer|ssl|tls|proxy|connect|resol|network|time(d )?.?out|fetch|download|dns|ENOTFOUND", re.IGNORECASE
)


class StdioSettings(Section):
    """The settings of a server that is a child process."""

    command: str | None = None
    """The program to start; the server then speaks over its stdin and stdout. With a slash in it, it is relative to the
    configuration file."""
    args: tuple[str, ...] = Field(default=(), repr=False)
    """Arguments of `command`, passed as they stand: no shell reads them, so write `${HOME}` for `~`."""
    env: Environment = Field(default={}, repr=False)
    """Environment of `command`, beside the few variables that are always passed (PATH, HOME, USER …) and those of all
    servers (`env` at the top of the file)."""
    cwd: str | None = None
    """Working directory of `command`; relative to the configuration file. Default: the folder of the host for a server
    that depends on it (`share`); else the folder of the file, or for the file in your configuration folder your home
    folder, unless an argument names something beside the file."""

    @property
    def follows_folder(self) -> bool:
        """True if the process works in the host's folder: `share` says so, or is found to."""
        return self.command is not None and self.cwd is None

    @field_validator("command", "cwd")
    @classmethod
    def _says_something(cls, text: str | None) -> str | None:
        if text is not None and not text.strip():
            raise ValueError("must not be empty")
        return text

    @field_validator("args")
    @classmethod
    def _args_can_be_passed(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for index, arg in enumerate(args):
            if "\0" in arg:
                raise ProblemWithin("holds a NUL character", index)
        return args


class StdioTransport(Transport):
    """One run of one child process, and the channel of its session. Call `open` once; `why_ended` says afterwards why
    it ended."""

    has_headers = False

    def __init__(
        self,
        settings: StdioSettings,
        reaper: Reaper,
        *,
        max_message_bytes: Callable[[], int] = lambda: MAX_MESSAGE_BYTES,
        redactor: Callable[[], Redactor] = Redactor,
    ) -> None:
        """`redactor` masks the child's stderr in messages."""
        self._settings = settings
        self._command = settings.command or ""
        self._redactor = redactor
        self._reaper = reaper
        self._max_message_bytes = max_message_bytes
        self._process: ChildProcess
        self._line = BoundedBytes(max_message_bytes())
        """What has come of a line that is not whole."""
        self._is_refused = False
        """True if that line is too long, and its call has failed."""
        self._stderr = OutputTail()
        self._stray_text = ""
        self._joined = JoinedLines()
        """The first text on stdout that is no message."""
        self._is_stopping = False
        self._left_by_itself = False
        self._failure: str | None = None
        self._returncode: int | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[StdioTransport]:
        """Start the child; on leaving, end it and all of its process group. Raises `OSError`: it can't be started."""
        process = self._process = await ChildProcess.start(
            [self._command, *self._settings.args],
            env=inherited_environment(os.environ, sys.platform) | self._settings.env,
            cwd=self._settings.cwd,
        )
        # No await between here and the task group: a cancellation there would leave the child to the reaper.
        self._reaper.watch(process.pid)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_stderr, process.stderr)
            try:
                yield self
            finally:
                self._is_stopping = True
                with anyio.CancelScope(shield=True):
                    async with anyio.create_task_group() as ending:
                        ending.start_soon(_drain, process.stdout)
                        await self._stop(process)
                        ending.cancel_scope.cancel()
                tasks.cancel_scope.cancel()

    def why_not_connected(self, cause: BaseException, refused: list[str]) -> str | None:
        """Explains an error of the start."""
        return _why_not_started(cause, self._command, self._settings.cwd, self._settings.env)

    def why_ended(self) -> str | None:
        """Why the child's connection ended, with the end of its stderr; None if we ended it."""
        if self._failure is not None:
            return self._failure
        if not self._left_by_itself:
            return None
        code = self._returncode
        if code is None:
            said = "closed its stdout"
        elif code < 0:
            said = f"was ended by signal {_signal_name(-code)}"
        else:
            said = f"exited with code {code}"
        words = self.last_words()
        return said + _missing_variables(self._settings.env, words) + words

    def why_unanswered(self) -> str:
        """Behavior of the child in place of an answer to the handshake, as clauses for a message."""
        words, stray = self.last_words(), self._redactor().line(self._stray_text, _STRAY_CHARACTERS)
        if stray:
            return f"; is it an MCP server, and does it log to stderr?{STDOUT_MARK}{stray!r}{words}"
        lacks = _missing_variables(self._settings.env, words or None)
        return lacks + (words or "; it has written nothing")

    def last_words(self) -> str:
        """The end of what the child wrote on stderr, as a clause for a message; empty if it wrote nothing."""
        redactor, stderr = self._redactor(), self._stderr
        # Masked as a whole: half a secret, or a line of it, would not be recognised.
        text = redactor.visible(redactor.tail(bytes(stderr.data), STDERR_BYTES, is_cut=stderr.is_cut)).strip()
        lines = text.splitlines()[-STDERR_LINES:]
        while len(lines) > 1 and sum(map(len, lines)) > _STDERR_CHARACTERS:
            del lines[0]
        return STDERR_MARK + "\n".join(lines) if text else ""

    async def send(self, message: dict[str, Any], headers: dict[str, str], *, is_urgent: bool = False) -> None:
        """Write a message in one piece; waits while the child does not read, if it is not urgent. Raises
        `ConnectionEnded`."""
        arguments = message["params"].get("arguments") if "params" in message else message.get("result")
        try:
            line = await run_large(_as_json, message) if is_large(arguments) else _as_json(message)
        except ValueError:  # lone surrogates, which only ASCII escapes can carry
            line = (await run_sized(is_large(arguments), json.dumps, message)).encode()
        try:
            await self._process.write(line + b"\n", waits=not is_urgent)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            self._left_by_itself = self._left_by_itself or not self._is_stopping
            raise ConnectionEnded from None

    async def deliver_to(self, session: Session) -> None:
        """Give the session what the child says, at a pace, until its stdout or the connection ends."""
        pace, stdout = Pace(), self._process.stdout
        with contextlib.suppress(*_ENDS):
            while self._failure is None:
                chunk = await stdout.receive()
                pace.begin()
                await self._deliver(chunk, session, pace)
        if not self._is_stopping:
            self._left_by_itself = self._failure is None

    async def _deliver(self, chunk: bytes, session: Session, pace: Pace) -> None:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0 and self._failure is None:
            if start:
                await pace.rest()
            if self._line.size or end - start > LARGE_BYTES:
                self._line.add(chunk[start:end])
                await self._deliver_long(session)
            else:
                for message in self._read(chunk[start:end]):
                    session.take(message)
            start = end + 1
        if start < len(chunk) and self._failure is None:
            self._line.add(chunk[start:] if start else chunk)
            if self._line.is_too_long:
                self._refuse(session, is_whole=False)

    async def _deliver_long(self, session: Session) -> None:
        """Pass on the line that came in pieces."""
        line = self._line
        if line.is_too_long:
            self._refuse(session, is_whole=True)
        elif line.size <= LARGE_BYTES:
            for message in self._read(bytes(line.data)):
                session.take(message)
        else:
            data, line.data = line.data, bytearray()
            messages = [*await read_large(self._read, data)]
            del data
            while messages:
                await session.take_large(messages.pop(0))
        self._line, self._is_refused = BoundedBytes(self._max_message_bytes()), False

    def _read(self, line: bytes | bytearray) -> tuple[JSONRPCMessage, ...]:
        if not line or line.isspace():
            return ()
        messages = parse_line(line) or parse_line(self._joined.add(line))
        if not messages:
            stray = line[:_STRAY_BYTES].decode("utf-8", "replace").strip()
            logger.debug("not JSON-RPC on stdout of %r: %r", self._command, self._redactor().head(stray, 200))
            self._stray_text = self._stray_text or stray
        return messages

    def _refuse(self, session: Session, *, is_whole: bool) -> None:
        """Say of a line that is too long, as soon as it can be told, that it was not taken."""
        line = self._line
        found = Unread.of(line.head, line.tail if is_whole else b"")
        if found.answers is not None and not self._is_refused:
            self._is_refused = True
            session.take(too_large(found.answers, line.most))
        is_hopeful = found.is_known or (line.head.lstrip()[:1] == b"{" and not is_whole)
        if not is_hopeful or line.size > _MAX_DROPPED_BYTES:
            self._failure = f"sent a message of more than {line.most / 2**20:g} MiB"

    async def _read_stderr(self, stderr: ByteReceiveStream) -> None:
        with contextlib.suppress(*_ENDS):
            async for chunk in stderr:
                self._stderr.add(chunk, self._redactor().tail_bytes(STDERR_BYTES))

    async def _stop(self, process: ChildProcess) -> None:
        """End the child and its group in the order of the MCP specification; every wait is bounded."""
        await process.close_stdin(EXIT_GRACE_S)
        self._returncode = process.returncode
        if await process.end_group(EXIT_GRACE_S):
            self._reaper.forget(process.pid)
        elif not process.has_exited:
            logger.warning("process %d of %r is left behind: SIGKILL did not end it", process.pid, self._command)


def _as_json(message: dict[str, Any]) -> bytes:
    return to_json(message, inf_nan_mode="null")


def inherited_environment(environ: Mapping[str, str], platform: str) -> dict[str, str]:
    """Variables of `environ` that a process gets on this platform (as `sys.platform`): few, so that it gets no secret
    of another server. Windows spells names in any case."""
    names = _WINDOWS if platform == "win32" else _POSIX
    given = {name.upper() if platform == "win32" else name: value for name, value in environ.items()}
    found = {name: given[name] for name in names if name in given}
    return {name: value for name, value in found.items() if not value.startswith("()")}  # bash's functions


async def _drain(stdout: ByteReceiveStream) -> None:
    """A child must be able to flush and leave: stuck in a write, it would never read the end of its stdin."""
    with contextlib.suppress(*_ENDS):
        async for _ in stdout:
            pass


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _why_not_started(cause: BaseException, command: str, cwd: str | None, env: Mapping[str, str]) -> str | None:
    """Explains an error of the start; None if it is not of the system."""
    if not isinstance(cause, OSError):
        return None
    if isinstance(cause, FileNotFoundError | NotADirectoryError) and cwd and cause.filename == cwd:
        return f"can't be started: there is no folder {cwd!r}"
    if _is_missing(cause, command, env):
        return f"can't be started: there is no program {command!r}{_remedy(command)}"
    if isinstance(cause, PermissionError):
        if Path(command).is_dir():
            return f"can't be started: {command!r} is a folder"
        remedy = "" if os.name == "nt" else "; `chmod +x` allows it"
        return f"can't be started: {command!r} may not be run ({cause.strerror}){remedy}"
    return f"can't be started: {cause.strerror or cause}"


def _missing_variables(given: Mapping[str, str], output: str | None) -> str:
    """A clause on the variables for proxies and certificates that we have and the process has not; empty if there are
    none, or if `output`, what the process wrote, is not about the network. None: it has not said why it waits."""
    lacking = [name for name in (*PROXIES, *CERTIFICATES) if os.environ.get(name) and name not in given]
    if not lacking or (output is not None and not _ABOUT_NETWORK.search(output)):
        return ""
    names = ", ".join(lacking)
    return f" ({names}: set here, but not for this server; `codemode-server import --env` gives them to all servers)"


def _remedy(command: str) -> str:
    if _is_path(command):
        return "; correct the path, or install it"
    if len(words := command.split()) > 1:
        return f"; if {words[0]!r} is the program, put the rest in `args`"
    return _WHERE_TO_GET.get(command, " on the PATH; install it or give its full path")


def _is_path(command: str) -> bool:
    return "/" in command or os.sep in command


def _is_missing(cause: OSError, command: str, env: Mapping[str, str]) -> bool:
    """True if the program does not exist. With an unreadable folder on PATH the system reports "permission denied"."""
    if isinstance(cause, PermissionError) and not _is_path(command):
        return shutil.which(command, mode=os.F_OK, path=env.get("PATH")) is None
    return isinstance(cause, FileNotFoundError)


TRANSPORT = TransportSpec(
    selector="command",
    meaning="a program to start",
    settings_model=StdioSettings,
    connect=lambda settings, deps: StdioTransport(
        settings, deps.reaper, max_message_bytes=deps.message_bytes, redactor=deps.redactor
    ),
    identity=lambda it: [it.command, it.args, it.cwd, None, "http", sorted(it.env), []],
    starts_process=True,
)
