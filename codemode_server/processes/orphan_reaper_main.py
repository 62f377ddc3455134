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


def is_left(pgid: int) -> bool:
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


def left_after(watched: set[int], seconds: float) -> set[int]:
    """The groups that are left after at most `seconds`; returns as soon as none is."""
    deadline = time.monotonic() + seconds
    while (watched := set(filter(is_left, watched))) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return watched


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: set[int] = set()
    rest = b""
    while chunk := os.read(0, 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            (watched.add if line[:1] == b"+" else watched.discard)(int(line[1:]))
    watched = left_after(watched, EXIT_GRACE_S)
    for pgid in watched:
        send(pgid, signal.SIGTERM)
    watched = left_after(watched, TERM_GRACE_S)
    for pgid in watched:
        send(pgid, signal.SIGKILL)


if __name__ == "__main__":
    main()
