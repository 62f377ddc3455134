"""What a program may write, in bytes: no sandbox has such a quota, so the host measures its folders while it runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.sandbox.backend import Ending, Outcome, Program, ProgramError
from codemode_server.sandbox.channel import Channel
from codemode_server.untrusted_files import used_bytes

_EVERY_SECONDS = 0.1


class Quota:
    """Folders of one program, each of which may hold so much."""

    def __init__(self, folders: Iterable[Path], most_bytes: int, holder: int | None) -> None:
        self._measured_bytes = most_bytes * 4
        """Of a folder that was too large to be measured whole the same part is measured again."""
        # A folder that is too full already may be read and tidied up, but not filled further.
        self._allowed = {folder: max(most_bytes, used_bytes(folder, self._measured_bytes)) for folder in folders}
        self._holder = holder

    def is_passed(self) -> bool:
        """Whether a folder holds more than it may."""
        return any(
            used_bytes(folder, min(allowed, self._measured_bytes)) + removed_bytes(self._holder, folder) > allowed
            for folder, allowed in self._allowed.items()
        )


async def run_within(channel: Channel, program: Program, folders: Iterable[Path], holder: int | None) -> Outcome:
    """The outcome of a program, ended when one of its folders on the host holds more than it may.

    `holder` is the process on the host that has the program's files open.
    """
    quota = await anyio.to_thread.run_sync(Quota, folders, program.limits.workspace_mb * 2**20, holder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, quota, channel, program)
        outcome = await channel.run()
        tasks.cancel_scope.cancel()
    if ended_itself(outcome) and (_met_file_limit(outcome) or await anyio.to_thread.run_sync(quota.is_passed)):
        return over(outcome, program)
    return outcome


async def _watch(quota: Quota, channel: Channel, program: Program) -> None:
    """End the program when it has written too much."""
    while True:
        await anyio.sleep(_EVERY_SECONDS)
        if await anyio.to_thread.run_sync(quota.is_passed):
            exceed(channel, program)
            return


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
    return ProgramError("LimitExceeded", message, setting="limits.workspace_mb")


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
