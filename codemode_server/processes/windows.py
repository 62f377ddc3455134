"""Child processes on Windows: programs found by PATHEXT, and job objects in place of process groups.

A job object ends all of its processes when its last handle is closed, so also when we are killed: there is no reaper.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = ".COM;.EXE;.BAT;.CMD"


def startable(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The command with its program's whole path. `CreateProcess` would not find `npx.cmd` by `npx`, and would look into
    the current folder first, which may be a repository of a stranger's, as `shutil.which` does. Raises
    `FileNotFoundError` if no folder of PATH has it."""
    program = command[0]
    by_name = {name.upper(): value for name, value in env.items()}
    endings = (by_name.get("PATHEXT") or _PROGRAMS).lower().split(";")
    names = [program] if program.lower().endswith(tuple(endings)) else [program + ending for ending in endings]
    if any(separator in program for separator in ("/", "\\")):
        return [next((name for name in names if Path(name).is_file()), program), *command[1:]]
    folders = [Path(folder.strip('"')) for folder in by_name.get("PATH", "").split(os.pathsep)]
    found = (str(folder / name) for folder in folders if folder.is_absolute() for name in names)
    for path in found:
        if Path(path).is_file():
            return [path, *command[1:]]
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)


def environment(given: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process, with the one without which Python and others do not start."""
    root = {name: value for name, value in ours.items() if name.upper() == "SYSTEMROOT"}
    return {**root, **given} if not any(name.upper() == "SYSTEMROOT" for name in given) else dict(given)


def begin_group(process: Any) -> None:
    """Put a process that was just started, with those that it starts, into a job object of its own."""
    from mcp.os.win32.utilities import _create_job_object, _maybe_assign_process_to_job

    _maybe_assign_process_to_job(process, _create_job_object())


def end_group(process: Any) -> None:
    """Kill a process with all of its job object."""
    from mcp.os.win32.utilities import close_process_job

    close_process_job(process)
    try:
        process.kill()
    except OSError:
        return
