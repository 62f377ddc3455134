"""Paths of programs that no folder has: /skills, whose files go to the host whole, /servers, whose files are the
tools, /state, which is /workspace/state, and `workspace/` within /workspace, which is /workspace itself.

`open('/skills/triage.py', 'w')` collects the text, and closing the file saves it; reading gives the text that an import
would run. Nothing else of a file system is there.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .link import Link
from .replacements import replace_members

_FOLDER = "/skills"
_STATE = "/state/"
_WORKSPACE = re.compile(r"(?:\./+)*(workspace(?:/.*)?)", re.DOTALL)
_TOOLS = re.compile(r"/(servers/[^/]+/[^/]+)\.py")
_PACKAGES = re.compile(r"/(servers(?:/[^/]+)?|skills)/*")
_BY_PATH = ("stat", "lstat", "scandir", "remove", "unlink", "rename", "replace", "rmdir")
_open = io.open


class ProgramPaths:
    def __init__(
        self,
        link: Link,
        source: Callable[[str], str],
        forget: Callable[[str], None],
        listed: Callable[[str], list[str]],
    ) -> None:
        """`source` gives the text of a module, `forget` has the next import ask for it anew, `listed` gives the files
        of a package."""
        self._link = link
        self._source = source
        self._forget = forget
        self._listed = listed
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._failures: list[Exception] = []
        """Errors of files that Python closed, since the program had no name for them."""
        self._left: list[Any] = []
        """Files that Python would have closed in another thread."""

    def install(self) -> None:
        """Let `open`, `os.listdir` and `os.mkdir` find the folders, as programs make folders before they write."""
        mkdir, listdir = os.mkdir, os.listdir

        def open_but_skills(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not isinstance(file, int) and (name := self.name_of(file)):
                return self.open(name, mode)
            if isinstance(file, (str, os.PathLike)) and (tool := _TOOLS.fullmatch(os.fspath(file))):
                return io.StringIO(self._source(_module(tool[1])))
            return _open(_real(file), mode, *arguments, **options)

        def listdir_but_tools(path: Any = ".") -> list[str]:
            package = _PACKAGES.fullmatch(path if isinstance(path, str) else str(path))
            return self._listed(_module(package[1])) if package else listdir(_real(path))

        def mkdir_but_skills(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None:
                mkdir(path, mode, dir_fd=dir_fd)
            elif _absolute(path) not in ("/", _FOLDER):
                mkdir(_real(path), mode)

        replace_members(os, mkdir=mkdir_but_skills, listdir=listdir_but_tools)
        for name in _BY_PATH:
            replace_members(os, **{name: _with_real_paths(getattr(os, name))})
        replace_members(io, open=open_but_skills)
        replace_members(builtins, open=open_but_skills)

    def name_of(self, path: Any) -> str:
        folder, _, file = _absolute(path).rpartition("/")
        return file.removesuffix(".py") if folder == _FOLDER and file.endswith(".py") else ""

    def open(self, name: str, mode: str) -> Any:
        """The file of a skill; only whole files are read and written."""
        is_binary = "b" in mode
        if set(mode) - set("bt") == {"r"}:
            source = self._source(f"skills.{name}")
            return io.BytesIO(source.encode()) if is_binary else io.StringIO(source)
        if set(mode) - set("bt") not in ({"w"}, {"x"}):
            raise ValueError(f"/skills/{name}.py is read or written whole: open it with 'r' or 'w', not {mode!r}")
        made: Any = _BinaryFile() if is_binary else _TextFile(newline="")
        made.failures, made.left, made.thread = self._failures, self._left, threading.get_ident()
        made.name, made.save = f"{_FOLDER}/{name}.py", functools.partial(self._send, name)
        self._open.add(made)
        return made

    def close_all(self) -> None:
        for file in [*self._open, *self._left]:
            file.close()
        if self._failures:
            raise self._failures[0]

    def _send(self, name: str, text: str) -> None:
        self._link.ask("skill", ValueError, name=name, text=text)
        self._forget(name)


class _File:
    """A file of a skill that is written: closing it saves the text."""

    name: str
    save: Callable[[str], object]
    failures: list[Exception]
    left: list[_File]
    thread: int

    def __del__(self) -> None:
        if threading.get_ident() != self.thread:  # perhaps the one that reads answers, where nobody can wait for one
            self.left.append(self)
            return
        try:
            self.close()
        except ValueError as error:  # raised from here, nobody would see it
            self.failures.append(error)

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:  # half of a text is no skill
            super().close()  # type: ignore[misc]
        self.close()

    def close(self) -> None:
        if not self.closed:  # type: ignore[attr-defined]
            text: str | bytes = self.getvalue()  # type: ignore[attr-defined]
            super().close()  # type: ignore[misc]
            self.save(text if isinstance(text, str) else text.decode())


class _TextFile(_File, io.StringIO):
    pass


class _BinaryFile(_File, io.BytesIO):
    pass


def _absolute(path: Any) -> str:
    """The path from `/`, also of a relative one. Empty for one that can mean neither `/` nor /skills: to make each one
    absolute is slow in deep folders."""
    try:
        text = os.fsdecode(path)
        is_meant = "skills" in text or not text.strip("./")
        return os.path.abspath(os.path.join("/", text)) if is_meant else ""  # noqa: PTH100, PTH118 - no links
    except (TypeError, ValueError):
        return ""


def _module(path: str) -> str:
    """The module of a path below /servers; `google-drive` is the folder of `google_drive`, too."""
    return path.replace("/", ".").replace("-", "_")


def _real(path: Any) -> Any:
    text = path if isinstance(path, (str, int)) or not isinstance(path, os.PathLike) else os.fspath(path)
    if not isinstance(text, str):
        return path
    if f"{text}/".startswith(_STATE):
        return f"/workspace{text}"
    is_relative = text.startswith(("workspace", "./")) and os.getcwd() == "/workspace"  # noqa: PTH109 - as it is
    inner = _WORKSPACE.fullmatch(text) if is_relative else None
    return f"/{inner[1]}" if inner else path


def _with_real_paths(function: Any) -> Any:
    """A function of `os` that knows /state; the standard library still finds what the function supports."""

    @functools.wraps(function)
    def with_real_paths(*paths: Any, **options: Any) -> Any:
        return function(*map(_real, paths), **options)

    for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if function in supported:
            supported.add(with_real_paths)
    return with_real_paths
