"""Cleans a microVM after a program: no process of its user, no file and no memory remains.

For the supervisor, which is root; the folders it looks into are the program's, so whatever they hold is hostile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

USER = 65_534
"""The user that programs run as; it owns nothing in the image."""
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # noqa: S108 - all that the user can write of the image
_FILE_SYSTEMS = ("/tmp", "/dev/shm", "/")  # noqa: S108 - those that SCRATCH is on, all in memory
_CLEAN_SECONDS = 3.0
_MIN_PER_ENTRY = 4_096


def kill_all_of_user() -> bool:
    """Kill every process of the programs' user: all at once, since they may fork faster than one by one is killed.

    It kills before it looks: a process that always goes on in a child is in no listing of /proc by the time it is read.
    What has the signal forks no more (copy_process in Linux), so after that the listing is right.
    """
    deadline = time.monotonic() + _CLEAN_SECONDS
    while True:
        killer = os.fork()
        if killer == 0:
            try:
                os.setgid(USER)
                os.setuid(USER)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(killer, 0)
        if not _processes_of_user():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)


def _processes_of_user() -> bool:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if _user(name) == USER:
                    return True
    return False


def _user(pid: str) -> int:
    """Whose process it is; not from the owner of its folder, which is root where it is not dumpable."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("State:") and line.split()[1] in "ZX":
                return 0
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return 0


def used_bytes() -> int:
    """Bytes taken of the file systems that the scratch folders are on, each file and folder counted as a block.

    Asked of the file systems and not counted in the folders: a file that is removed while it is open takes its place
    still, and no tree of a program's can make the answer slow.
    """
    used = 0
    for folder in _FILE_SYSTEMS:
        with contextlib.suppress(OSError):
            usage = os.statvfs(folder)
            used += (usage.f_blocks - usage.f_bfree) * usage.f_frsize + (usage.f_files - usage.f_ffree) * _MIN_PER_ENTRY
    return used


def empty_scratch() -> bool:
    for folder in SCRATCH:
        if os.path.isdir(folder) and not os.path.islink(folder):
            _empty(folder)
            if os.listdir(folder):
                return False
    return True


def _empty(folder: str) -> None:
    """Remove all in a folder; it may be nested deeper than any path reaches, so its folders are moved up first."""
    number = 0
    while True:
        with os.scandir(folder) as entries:
            found = list(entries)
        if not found:
            return
        before = number
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                number += 1
                continue
            with os.scandir(entry.path) as inner:
                for below in list(inner):
                    number += 1
                    if below.is_dir(follow_symlinks=False):
                        os.rename(below.path, os.path.join(folder, f".{time.monotonic_ns()}-{number}"))
                    else:
                        os.unlink(below.path)
            os.rmdir(entry.path)
            number += 1
        if number == before:
            return


def no_shared_memory() -> bool:
    """True if no System V object is left, which would outlive its maker."""
    for kind in ("shm", "msg", "sem"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:
            if len(file.readlines()) > 1:
                return False
    return True


def number_in(path: str, name: str) -> int:
    with open(path, encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)


def forget_files() -> None:
    """Drop cached data of files on the host: others may have changed the workspace since."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("2")
