"""Files that the program's `open()` creates: one that a write was refused for does not stay behind empty.

Only the guest knows who created a file. The host sees a folder in which other processes write as well.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .skill_files import SkillFiles

_open = io.open


class NewFiles:
    """The file whose write was refused, among those that `open()` created."""

    def __init__(self, skills: SkillFiles | None = None) -> None:
        self._skills = skills
        self._refused: tuple[Any, os.stat_result] | None = None

    def install(self) -> None:
        builtins.open = io.open = self.open

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[Any, int], int] | None = None,
    ) -> Any:
        """As the built-in one, also for what is in /skills."""
        if self._skills is not None and not isinstance(file, int) and (name := self._skills.name_of(file)):
            return self._skills.open(name, mode, encoding, newline)
        created: list[os.stat_result] = []

        def create(path: Any, flags: int) -> int:
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(path, flags | os.O_EXCL, 0o666)
                created.append(os.fstat(descriptor))
                return descriptor
            return os.open(path, flags, 0o666)

        if opener is None and isinstance(mode, str) and any(letter in mode for letter in "wax"):
            opener = create
            if buffering == 0 and "b" in mode and encoding is errors is newline is None:
                unbuffered = _Unbuffered(file, mode, closefd, opener)
                if created:
                    unbuffered.refused = partial(self._note, (file, created[0]))
                return unbuffered
        opened = _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if created:
            raw = getattr(opened, "buffer", opened)
            self._watch(getattr(raw, "raw", raw), (file, created[0]))
        return opened

    def remove_empty(self, error: BaseException) -> None:
        """Remove the file that `error` was raised for, if it is still there and empty."""
        if self._refused is None or not _is_too_large(error):
            return
        path, made = self._refused
        with contextlib.suppress(OSError):
            now = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - it may be bytes
            if os.path.samestat(now, made) and now.st_size == 0:
                os.unlink(path)  # noqa: PTH108 - as above

    def _watch(self, raw: Any, created: tuple[Any, os.stat_result]) -> None:
        # Weak: a file that nobody refers to any more has to be closed at once. Its buffer refers to it during a write.
        weak = weakref.ref(raw)

        def watched(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                try:
                    return method(weak(), *arguments)
                except OSError as error:
                    self._note(created, error)
                    raise

            return call

        raw.write, raw.truncate = watched(io.FileIO.write), watched(io.FileIO.truncate)

    def _note(self, created: tuple[Any, os.stat_result], error: OSError) -> None:
        if _is_too_large(error):
            self._refused = created


class _Unbuffered(io.FileIO):
    """What `open(…, buffering=0)` gives. The file may be referred to by nothing but the call of its method."""

    refused: Callable[[OSError], None] | None = None
    """Called with the error of each write that fails."""

    def write(self, data: Any) -> Any:
        with self._reporting():
            return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        with self._reporting():
            return super().truncate(size)

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.refused is not None:
                self.refused(error)
            raise


def _is_too_large(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EFBIG
