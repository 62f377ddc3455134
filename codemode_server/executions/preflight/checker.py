"""The type checker: `ty` as a language server, a process of its own that is kept warm, fed one text at a time.

What it reads is hostile, so it gets nothing but the text: an empty folder, no environment, no site-packages, bounds on
memory, processor time and files, and a second for its answer. It starts with the first text, ends when idle, and is
replaced when it grows, fails or has read many. Nothing of one text is there for the next.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio

from codemode_server import temporary
from codemode_server.processes.child_process import ChildProcess
from codemode_server.processes.stream_readers import ContentLengthReader, FramingError, content_length_message

logger = logging.getLogger(__name__)

SECONDS = 1.0
"""Maximum time for one text; after it, the program runs without this part of the check."""
_STARTING = 3
"""The factor by which that time is longer if a process has to start."""
IDLE_SECONDS = 300.0
MAX_TEXTS = 1_000
"""Texts that one process reads before it is replaced."""
MAX_RESIDENT_BYTES = 256 * 2**20
_MAX_TEXT_BYTES = 512 * 1024
_MAX_ANSWER_BYTES = 4 * 2**20
_MAX_DIAGNOSTICS = 500
_CREATED, _CHANGED = 1, 2
_NO_STUBS: Mapping[str, str] = {}
_BOUNDS = 'ulimit -c 0; ulimit -f 0; ulimit -t 60; ulimit -v 2097152 2>/dev/null; exec "$0" server'
_CONFIGURATION = """[environment]
python = "./python"
python-version = "3.14"
python-platform = "linux"
root = ["./source"]
"""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic of the type checker; lines count from 1."""

    message: str
    line: int


class TypeChecker:
    """One process at most; texts wait for each other."""

    def __init__(self, executable: Path | None = None, *, seconds: float = SECONDS) -> None:
        self._executable = executable or find_executable()
        self._seconds = seconds
        self._turn = anyio.Lock()
        self._server: _Server | None = None
        self._used = anyio.Event()
        if sys.platform == "win32":
            self._executable = None
            logger.warning("programs are checked without the type checker: Windows has no `ulimit` to bound it")
        elif self._executable is None:
            logger.warning("the type checker `ty` is not installed; programs are checked without it")

    @property
    def pid(self) -> int | None:
        """Process id of the checker that is running now."""
        return self._server.pid if self._server else None

    @property
    def resident_bytes(self) -> int:
        """Memory of that process; 0 if there is none, or if it can't be measured."""
        return self._server.resident_bytes if self._server else 0

    async def tend(self) -> None:
        """End the process when it was idle for long; runs in a task of its own."""
        while True:
            await self._used.wait()
            self._used = anyio.Event()
            with anyio.move_on_after(IDLE_SECONDS):
                await self._used.wait()
                continue
            async with self._turn:
                await self.aclose()

    async def diagnostics(self, text: str, stubs: Mapping[str, str] = _NO_STUBS) -> list[Diagnostic] | None:
        """The diagnostics of a Python text, or None if it could not be checked.

        `stubs` are files of modules that it may import, by their paths.
        """
        size = len(text) + sum(map(len, stubs.values()))
        if self._executable is None or size > _MAX_TEXT_BYTES:
            return None
        self._used.set()
        seconds = self._seconds if self._server else self._seconds * _STARTING
        with anyio.move_on_after(seconds) as patience:
            async with self._turn:
                return await self._asked(text, stubs, self._executable)
        if patience.cancelled_caught:
            logger.warning("the type checker did not answer within %g s; a program runs without it", seconds)
        return None

    async def _asked(self, text: str, stubs: Mapping[str, str], executable: Path) -> list[Diagnostic] | None:
        found = None
        try:
            if self._server is None:
                self._server = await _Server.start(executable)
            found = await self._server.check(text, stubs)
        except (_Broken, OSError) as error:
            logger.warning("the type checker failed (%s); a program runs without it", error)
        finally:
            # Also when cancelled: its answer would be taken for the next one's.
            if found is None or self._server is None or self._server.is_used_up:
                await self.aclose()
        return found

    async def aclose(self) -> None:
        """End the process."""
        server, self._server = self._server, None
        if server is not None:
            await server.kill()


def find_executable() -> Path | None:
    """The `ty` that is installed beside us; never another one from PATH."""
    try:
        from ty import find_ty_bin

        return Path(find_ty_bin())
    except (ImportError, OSError):
        beside = Path(sys.executable).parent / "ty"
        return beside if beside.is_file() else None


class _Broken(Exception):
    """Raised when the process ended, or broke the protocol of language servers."""


class _Server:
    """One process."""

    def __init__(self, process: ChildProcess, folder: Path) -> None:
        self._process = process
        self._received = ContentLengthReader(process.stdout)
        self._folder = folder
        self._stubs: dict[str, str] = {}
        """The files of modules in its folder."""
        self._requests = 0
        self._texts = 0

    @classmethod
    async def start(cls, executable: Path) -> _Server:
        folder = _make_folder()
        try:
            process = await ChildProcess.start(
                ["/bin/sh", "-c", _BOUNDS, str(executable)],
                env={"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TY_MAX_PARALLELISM": "1", "TY_LOG": "off"},
                cwd=folder,
                stderr=DEVNULL,  # it may quote the text
            )
        except BaseException:
            temporary.remove(folder)
            raise
        server = cls(process, folder)
        try:
            await server._introduce()
        except BaseException:
            await server.kill()
            raise
        return server

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_used_up(self) -> bool:
        return self._texts >= MAX_TEXTS or self.resident_bytes > MAX_RESIDENT_BYTES

    @property
    def resident_bytes(self) -> int:
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):  # not on this platform: then the number of texts is the bound
            return 0
        if sys.platform == "win32":
            raise NotImplementedError  # it has no /proc
        return pages * os.sysconf("SC_PAGE_SIZE")

    async def check(self, text: str, stubs: Mapping[str, str]) -> list[Diagnostic]:
        self._texts += 1
        await self._write(stubs)
        # Opened, never written. Always the same name, since the checker stores something for each new one.
        address = (self._folder / "source" / "program.py").as_uri()
        document = {"uri": address, "languageId": "python", "version": 1, "text": text}
        await self._notify("textDocument/didOpen", {"textDocument": document})
        answer = await self._request("textDocument/diagnostic", {"textDocument": {"uri": address}})
        await self._notify("textDocument/didClose", {"textDocument": {"uri": address}})
        try:
            # What has no code is a hint for an editor: to show a name as unused.
            items = [item for item in answer["items"][:_MAX_DIAGNOSTICS] if item.get("code")]
            return [Diagnostic(str(it["message"])[:2_000], int(it["range"]["start"]["line"]) + 1) for it in items]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _Broken(f"its answer has another form: {error!r}") from error

    async def _write(self, stubs: Mapping[str, str]) -> None:
        """Write the modules that are new or have changed, and say so."""
        changes: list[dict[str, Any]] = []
        source = self._folder / "source"
        for name, text in stubs.items():
            if self._stubs.get(name) == text:
                continue
            path = source / name
            for folder in [outer for outer in reversed(path.parents) if source in outer.parents and not outer.exists()]:
                folder.mkdir()
                changes.append({"uri": folder.as_uri(), "type": _CREATED})
            path.write_text(text, encoding="utf-8")
            changes.append({"uri": path.as_uri(), "type": _CHANGED if name in self._stubs else _CREATED})
            self._stubs[name] = text
        if changes:
            await self._notify("workspace/didChangeWatchedFiles", {"changes": changes})

    async def kill(self) -> None:
        """Kill it and remove its folder."""
        await self._process.kill()
        temporary.remove(self._folder)

    async def _introduce(self) -> None:
        address = self._folder.as_uri()
        answer = await self._request(
            "initialize",
            {
                "processId": None,
                "rootUri": address,
                "workspaceFolders": [{"uri": address, "name": "check"}],
                "capabilities": {
                    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}},
                    "textDocument": {"diagnostic": {"dynamicRegistration": False}},
                    "general": {"positionEncodings": ["utf-8"]},
                },
            },
        )
        if not isinstance(answer, dict) or answer.get("capabilities", {}).get("positionEncoding") != "utf-8":
            raise _Broken("it does not count columns in UTF-8")
        await self._notify("initialized", {})

    async def _request(self, method: str, parameters: dict[str, Any]) -> Any:
        self._requests += 1
        await self._send({"id": self._requests, "method": method, "params": parameters})
        while True:
            message = await self._receive()
            if "method" in message:
                if "id" in message:
                    await self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._requests:
                if "result" not in message:
                    raise _Broken("it refused a request")
                return message["result"]

    async def _notify(self, method: str, parameters: dict[str, Any]) -> None:
        await self._send({"method": method, "params": parameters})

    async def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            await self._process.stdin.send(content_length_message(body))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise _Broken("it has ended") from error

    async def _receive(self) -> dict[str, Any]:
        try:
            message = json.loads(await self._received.read(_MAX_ANSWER_BYTES))
        except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
            raise _Broken("it has ended") from error
        except (FramingError, ValueError, RecursionError) as error:
            raise _Broken("what it says is no message") from error
        if not isinstance(message, dict):
            raise _Broken("what it says is no message")
        return message


def _make_folder() -> Path:
    """A folder of its own, which looks like a project without any file or package."""
    folder = temporary.make("check").resolve()
    (folder / "source").mkdir()
    # An environment with nothing in it: else it reads the one that it is installed in.
    (folder / "python" / "lib" / "python3.14" / "site-packages").mkdir(parents=True)
    (folder / "python" / "pyvenv.cfg").write_text("home = /\nversion = 3.14.0\n")
    (folder / "ty.toml").write_text(_CONFIGURATION)
    return folder
