"""Runs a command where real microVMs boot: on this machine, or in an emulated one where it has no virtualization.

    scripts/vm/run -- CMD …      run CMD in this folder; the exit status is CMD's

CMD has this environment, and besides: CODEMODE_VM, `hardware` or `emulated`; CODEMODE_VM_IMAGE and
CODEMODE_VM_IMAGE_NO_PYTHON, the names of two images that are loaded; CODEMODE_VM_ARCHIVE, the first as a
docker-archive; CODEMODE_VM_OUT, a folder whose contents come back; MSB_HOME; TMPDIR, on a file system with extended
attributes. Standard input is empty. In the emulated machine all that CMD writes elsewhere is gone afterwards.

Set from outside: CODEMODE_VM_CACHE (~/.cache/codemode-vm), CODEMODE_VM_TIMEOUT_S (1500; the whole run, not what is
prepared first), CODEMODE_VM_OUT, CODEMODE_VM_EMULATE=1 to emulate where it isn't needed, CODEMODE_VM_TRIES (1), how
often CMD is run anew when an emulated machine dies under it; CODEMODE_VM_SILENCE_S, after which of saying nothing it is
taken for dead (never); CODEMODE_VM_MACHINES (1), in how many emulated machines CMD runs at once, each with `1/2` or
`2/2` as CODEMODE_VM_PART, for its part of the work. Exit status 75: no machine could be had; 124: the time was up; 70:
the machine ended before CMD did; of several machines, that of the first which failed.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from scripts.vm import emulated, images, parts

NO_MACHINE, TIME_IS_UP = 75, 124
TIMEOUT_S = 1500.0
LONGEST_HOME = 60
"""Of microsandbox's home: the names of its sockets come after it, and a socket's path has 107 bytes at most."""

MSB = Path(sys.executable).with_name("msb")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["run", "--", _, *_]:
            return _or_no_machine(arguments[2:])
        case _:
            sys.stderr.write(__doc__ or "")
            return 2


def _stop(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def _or_no_machine(command: list[str]) -> int:
    try:
        return run(command)
    except parts.Unavailable as reason:
        text = "\n".join(f"!! {line}" for line in str(reason).splitlines())
        sys.stderr.write(f"\n!! NO MACHINE FOR MICROVMS COULD BE HAD; NOTHING WAS RUN.\n{text}\n\n")
        return NO_MACHINE
    except TimeoutError:
        sys.stderr.write(f"\n!! vm: {_timeout_s():.0f} s are over (CODEMODE_VM_TIMEOUT_S); the command was ended.\n\n")
        return TIME_IS_UP
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def run(command: list[str]) -> int:
    """Run the command where microVMs boot; its exit status."""
    if "CODEMODE_VM" in os.environ:  # this is such a machine
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    missing = _missing_hardware()
    count = int(os.environ.get("CODEMODE_VM_MACHINES") or 1)
    if missing and count > 1:
        return _side_by_side(count, command)
    cache = parts.cache_folder()
    with parts.locked(cache):
        archives = images.folder(cache)
        made_from = parts.key(version("microsandbox"), archives.name, str(cache))
        home = cache / f"{'emulated' if missing else 'home'}-{made_from}"
        if len(str(home)) > LONGEST_HOME:
            raise parts.Unavailable(
                f"{home} is too long for names of sockets: set CODEMODE_VM_CACHE to a shorter path."
            )
        machine = None
        if missing:
            machine = emulated.prepare(cache, made_from, home, lambda: _load(home, archives))
        else:
            parts.part(cache, "home", made_from, lambda fresh: _load(fresh, archives), in_place=True)
    with tempfile.TemporaryDirectory(dir=_with_attributes(cache), ignore_cleanup_errors=True) as temporary:
        out = Path(os.environ.get("CODEMODE_VM_OUT") or Path(temporary) / "out").resolve()
        out.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "CODEMODE_VM": "emulated" if machine else "hardware",
            "CODEMODE_VM_IMAGE": images.PYTHON,
            "CODEMODE_VM_IMAGE_NO_PYTHON": images.NO_PYTHON,
            "CODEMODE_VM_ARCHIVE": str(archives / "python.tar"),
            "CODEMODE_VM_OUT": str(out),
            "CODEMODE_VM_RUN": secrets.token_hex(4),
            "MSB_HOME": str(home),
            "TMPDIR": emulated.TEMPORARY if machine else temporary,
        }
        if machine:
            parts.say(f"emulating a machine, because {missing}: expect the command to take ten times as long")
            return _in_emulated(machine, command, environment, out)
        return _here(command, environment)


def _in_emulated(machine: emulated.Machine, command: list[str], environment: dict[str, str], out: Path) -> int:
    """Run it there, in another one when the machine dies under it, as often as the caller allows."""
    tries, until = int(os.environ.get("CODEMODE_VM_TRIES") or 1), time.monotonic() + _timeout_s()
    silence_s = float(os.environ.get("CODEMODE_VM_SILENCE_S") or math.inf)
    for number in range(1, tries + 1):
        status = machine.run(command, environment, out, until - time.monotonic(), silence_s)
        if status != emulated.ENDED or number == tries:
            return status
        parts.say(f"the command is given another machine ({number + 1} of {tries})")
    return emulated.ENDED


def _side_by_side(count: int, command: list[str]) -> int:
    """Run it in several machines at once, in a process each; what they say has their number before it."""
    line = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m", "scripts.vm.lab", "run", "--", *command]
    numbers = range(1, count + 1)
    processes = [
        subprocess.Popen(
            line,
            env={**os.environ, "CODEMODE_VM_MACHINES": "1", "CODEMODE_VM_PART": f"{number}/{count}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for number in numbers
    ]
    copies = [threading.Thread(target=_copy, args=it, daemon=True) for it in zip(numbers, processes, strict=True)]
    try:
        for copy in copies:
            copy.start()
        statuses = [process.wait() for process in processes]
        for copy in copies:
            copy.join(10)
    finally:
        for process in processes:
            process.terminate()
    parts.say(f"the machines ended with {statuses}")
    return next((status for status in statuses if status), 0)


def _copy(number: int, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout
    for line in process.stdout:
        os.write(sys.stdout.fileno(), b"%d| %s" % (number, line))


def _missing_hardware() -> str | None:
    """What microsandbox misses on this machine, in its own words."""
    if os.environ.get("CODEMODE_VM_EMULATE"):
        return "CODEMODE_VM_EMULATE is set"
    if not MSB.exists():
        raise parts.Unavailable(f"there is no {MSB}: microsandbox has nothing for this system, or `make setup` failed.")
    done = subprocess.run([MSB, "doctor"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    found = re.search(r"^error: (.+)$", done.stdout + done.stderr, re.MULTILINE)
    return found[1] if found else f"`msb doctor` exits {done.returncode}"


def _load(home: Path, archives: Path) -> None:
    """Loading needs no virtualization."""
    for name in ("python.tar", "no-python.tar"):
        parts.did(MSB, "load", "-i", archives / name, env={"MSB_HOME": str(home)})


def _with_attributes(cache: Path) -> Path:
    """A folder for temporary files that takes extended attributes, which what is bound into a microVM needs."""
    folder = Path(tempfile.gettempdir())
    if sys.platform == "linux":
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            try:
                os.setxattr(probe.name, "user.codemode", b"1")
            except OSError:
                return cache
    return folder


def _here(command: list[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, process_group=0)
    try:
        return process.wait(_timeout_s())
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _timeout_s() -> float:
    return float(os.environ.get("CODEMODE_VM_TIMEOUT_S") or TIMEOUT_S)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main(sys.argv[1:]))
