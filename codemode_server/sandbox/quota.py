"""What a program may write, in bytes: no sandbox has such a quota, so the host measures its folders while it runs."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.sandbox.backend import Ending, Outcome, Program, ProgramError
from codemode_server.sandbox.channel import Channel

LEAST_PER_ENTRY = 4_096
"""What even an empty file or folder takes of a disk."""
_EVERY_SECONDS = 0.1
_SETTING = "limits.workspace_mb"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_LONG_PATH = 500
"""Characters. With one more name, of at most 255 bytes, it is within what any system takes."""


class Quota:
    """The folders of one program on the host, each of which may hold so much."""

    def __init__(self, program: Program, folders: Iterable[Path]) -> None:
        self._program = program
        self._folders = tuple(folders)
        self._most_bytes = program.limits.workspace_mb * 2**20
        self._allowed: dict[Path, int] = {}
        self._holder: int | None = None

    async def run(self, channel: Channel, holder: int | None) -> Outcome:
        """The outcome of the program, ended when one of its folders holds more than it may.

        `holder` is the process on the host that has the program's files open.
        """
        self._holder = holder
        await anyio.to_thread.run_sync(self._measure)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, channel)
            outcome = await channel.run()
            tasks.cancel_scope.cancel()
        if ended_itself(outcome) and (_met_file_limit(outcome) or await anyio.to_thread.run_sync(self._is_passed)):
            return over(outcome, self._program)
        return outcome

    async def _watch(self, channel: Channel) -> None:
        """End the program when it has written too much."""
        while True:
            await anyio.sleep(_EVERY_SECONDS)
            if await anyio.to_thread.run_sync(self._is_passed):
                exceed(channel, self._program)
                return

    def _measure(self) -> None:
        for folder in self._folders:
            used = used_bytes(folder, self._most_bytes * 4)
            # A folder that is too full already may be read and tidied up, but not filled further.
            self._allowed[folder] = max(self._most_bytes, used)

    def _is_passed(self) -> bool:
        return any(
            # Of a folder that was too large to be measured whole the same part is measured again.
            used_bytes(folder, min(allowed, self._most_bytes * 4)) + removed_bytes(self._holder, folder) > allowed
            for folder, allowed in self._allowed.items()
        )


def exceed(channel: Channel, program: Program) -> None:
    """End a program that has written too much."""
    error = _error(program)
    channel.exceed(error.message, error.setting or "")


def over(outcome: Outcome, program: Program) -> Outcome:
    """The outcome of a program that has written too much, seen only at its end."""
    error = replace(_error(program), line=outcome.error.line if outcome.error else None)
    return replace(outcome, ending=Ending.LIMITED, value=None, value_form="none", error=error)


def ended_itself(outcome: Outcome) -> bool:
    """Whether the program came to its own end."""
    return outcome.ending in (Ending.RETURNED, Ending.RAISED)


def _met_file_limit(outcome: Outcome) -> bool:
    """Whether the program failed since one file would have grown past the quota."""
    return outcome.error is not None and outcome.error.type == "OSError" and "File too large" in outcome.error.message


def _error(program: Program) -> ProgramError:
    message = f"the program's files take more than {program.limits.workspace_mb} MiB"
    return ProgramError("LimitExceeded", message, setting=_SETTING)


def used_bytes(folder: Path, enough: int) -> int:
    """Bytes in a folder and all below it, links not followed; stops counting past `enough`."""
    used = 0
    try:
        for entry in _entries(folder):
            used += _size(entry)
            if used > enough:
                break
    except _TooNested:
        return enough + 1
    return used


class _TooNested(Exception):
    """Raised when folders are nested so that they can't be measured."""


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All entries below a folder.

    A program can nest folders deeper than any path of the host's reaches, so below a long path it goes on from there.
    """
    try:
        waiting = [(_Start(os.open(folder, _FOLDER)), ".")]
    except OSError:
        return
    while waiting:
        start, path = waiting.pop()
        try:
            here = _Start(os.open(path, _FOLDER, dir_fd=start.handle))
            with os.scandir(here.handle) as entries:
                if len(path) > _LONG_PATH:
                    start, path = here, "."
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((start, f"{path}/{entry.name}"))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise _TooNested from error
            continue  # removed meanwhile


def removed_bytes(holder: int | None, folder: Path) -> int:
    """Bytes of files of a folder that are removed and still open, which no folder shows; on Linux only."""
    used, beginning = 0, os.fsencode(folder) + b"/"
    files = f"/proc/{holder}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(files) if holder is not None else ():  # noqa: PTH208 - names of a folder that is no real one
            with contextlib.suppress(OSError):
                target = os.readlink(os.fsencode(f"{files}/{name}"))  # noqa: PTH115 - bytes, whatever they are
                if target.endswith(b" (deleted)") and target.startswith(beginning):
                    used += os.stat(f"{files}/{name}").st_blocks * 512  # noqa: PTH116 - as above
    return used


def remove(folder: Path) -> None:
    """Remove a folder that nobody uses any more; what can't be removed is left.

    Folders inside are moved up before they are emptied: however deep they are nested, no path gets long.
    """
    names = (f"{secrets.token_hex(8)}-{number}" for number in itertools.count())
    waiting = [folder]
    emptied: list[Path] = []
    while waiting:
        place = waiting.pop()
        emptied.append(place)
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in list(entries):
                with contextlib.suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        Path(entry.path).unlink()
                    elif place is folder:
                        waiting.append(Path(entry.path))
                    else:
                        waiting.append(Path(entry.path).rename(folder / next(names)))
    for place in reversed(emptied):
        with contextlib.suppress(OSError):
            place.rmdir()


class _Start:
    """An open folder that paths begin at; closed with the last of them."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __del__(self) -> None:
        os.close(self.handle)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return max(LEAST_PER_ENTRY, entry.stat(follow_symlinks=False).st_size)
    except OSError:
        return 0
