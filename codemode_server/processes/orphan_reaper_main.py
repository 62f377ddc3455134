"""The reaper's program: when its stdin closes, it ends the process groups that it watches. Standard library only.

Lines on stdin: `+<pgid>` watches a group, `-<pgid>` stops watching it. End of file: the product has ended. Runs as
`python -I -S -E reaper_main.py` in a session of its own, so no signal to the product's group reaches it.
"""

import os
import signal
import sys
import time

assert sys.platform != "win32", "job objects do this on Windows"  # noqa: S101 - for the type checker

EXIT_GRACE_S = 0.7
"""An upstream's stdin closes with the product too: time to leave by itself."""
TERM_GRACE_S = 0.7
"""From SIGTERM to SIGKILL."""
POLL_S = 0.02


def start_time(pid: int) -> str:
    """The process's start time in any unit, to recognise a later process with the same id; empty if none."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - pathlib would triple the memory
                return stat.read().rpartition(b")")[2].split()[19].decode()
        except (OSError, IndexError):
            return ""
    import subprocess  # only here: it would double the reaper's memory

    try:
        return subprocess.run(  # noqa: S603 - a fixed program and a number
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def is_left(pgid: int, started: str) -> bool:
    """True if a process of the group is left. A leader with another start time is another process with the same id."""
    now = start_time(pgid)
    if now and started and now != started:
        return False
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: zombies and foreign members
        return True
    return True


def send(pgid: int, number: int) -> None:
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):
        return


def left_after(watched: dict[int, str], seconds: float) -> dict[int, str]:
    """The groups that are left after at most `seconds`; returns as soon as none is."""
    deadline = time.monotonic() + seconds
    while watched := {pgid: started for pgid, started in watched.items() if is_left(pgid, started)}:
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_S)
    return watched


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: dict[int, str] = {}
    rest = b""
    while chunk := os.read(0, 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            pgid = int(line[1:])
            if line[:1] == b"+":
                watched[pgid] = start_time(pgid)
            else:
                watched.pop(pgid, None)
    watched = left_after(watched, EXIT_GRACE_S)
    for pgid in watched:
        send(pgid, signal.SIGTERM)
    watched = left_after(watched, TERM_GRACE_S)
    for pgid in watched:
        send(pgid, signal.SIGKILL)


if __name__ == "__main__":
    main()
