"""What the lab keeps between runs: parts in one cache folder, each there whole or not at all.

A part is named by what it is made from, so that a changed recipe or another microsandbox makes a new one; one that
nobody has used for two weeks goes when a new one is made. Debian's packages are had here too. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SHORTEST_LIVED_S = 14 * 24 * 3600
APT = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3")
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


class Unavailable(Exception):
    """Raised when no machine for microVMs can be had here; the message says why, and what to do."""


def say(text: str) -> None:
    print(f"vm: {text}", file=sys.stderr, flush=True)


def cache_folder() -> Path:
    named = os.environ.get("CODEMODE_VM_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "codemode-vm").resolve()


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One preparation at a time; another waits for it."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another preparation is under way in {cache}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def key(*made_from: Path | str) -> str:
    """Eight digits that stand for these texts and the contents of these files."""
    digest = hashlib.sha256()
    for source in made_from:
        digest.update(source.read_bytes() if isinstance(source, Path) else source.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:8]


def part(cache: Path, name: str, made_from: str, make: Callable[[Path], None], *, in_place: bool = False) -> Path:
    """The folder of this part; `make` fills it where it isn't there yet.

    It is made beside its place and renamed, so that a preparation that was interrupted leaves nothing that looks whole.
    What holds its own path can't be renamed: `in_place` makes it where it stays, and a marker says that it is whole.
    """
    folder = cache / f"{name}-{made_from}"
    whole = folder / ".whole" if in_place else folder
    if not whole.exists():
        fresh = folder if in_place else cache / f"{folder.name}.new"
        remove(fresh)
        fresh.mkdir(parents=True)
        begun = time.monotonic()
        make(fresh)
        if in_place:
            whole.touch()
        else:
            fresh.rename(folder)
        say(f"made {name} in {time.monotonic() - begun:.0f} s")
        forget_old(cache, f"{name}-????????")
    os.utime(folder)
    return folder


def remove(folder: Path) -> None:
    """A failure to remove is one: what would be left is half a part."""
    if folder.exists():
        shutil.rmtree(folder)


def forget_old(folder: Path, pattern: str) -> None:
    for old in folder.glob(pattern):
        if old.stat().st_mtime < time.time() - SHORTEST_LIVED_S:
            shutil.rmtree(old, ignore_errors=True)


def did(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What the command prints; where it fails, its last lines are the reason."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={
            **os.environ,
            "PATH": SYSTEM_PATH,
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
            **(env or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise Unavailable(f"this failed with {done.returncode}: {' '.join(map(str, command))}\n{last}")
    return done.stdout


def need_debian(purpose: str, *, root: bool = False) -> None:
    """Only Debian on x86-64; and only root may install packages, and make an image in a chroot."""
    system = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if not re.search(r"^ID=\"?debian\"?$", system, re.MULTILINE) or os.uname().machine != "x86_64":
        raise Unavailable(
            f"{purpose} takes Debian's packages for x86-64; this is {_named(system)} on {os.uname().machine}.\n"
            "Run it on Debian 12 or later, a container of it will do, as root."
        )
    if root and os.geteuid() != 0:
        raise Unavailable(
            f"{purpose} takes root, once.\nRun: sudo env CODEMODE_VM_CACHE={cache_folder()} scripts/vm/run -- true"
        )


def _named(os_release: str) -> str:
    found = re.search(r"^PRETTY_NAME=\"?([^\"\n]+)", os_release, re.MULTILINE)
    return found[1] if found else sys.platform


def _update() -> None:
    need_debian("fetching apt's lists of packages", root=True)
    say("apt-get update")
    did(*APT, "update")


def install(package_of: dict[str, str]) -> None:
    """Install the packages whose commands aren't there."""
    wanted = [package for command, package in package_of.items() if not shutil.which(command, path=SYSTEM_PATH)]
    if wanted:
        need_debian(f"installing {' '.join(wanted)}", root=True)
        say(f"apt-get install {' '.join(wanted)}")
        _after_update_if_need_be(*APT, "install", "-y", "--no-install-recommends", *wanted)


def unpacked(package: str, folder: Path) -> None:
    """The files of a package, not installed: a kernel in /boot could be taken for this machine's own, and what serves
    would be started.
    """
    need_debian(f"getting {package}")
    folder.mkdir(parents=True, exist_ok=True)
    _after_update_if_need_be(*APT, "download", package, cwd=folder)
    (archive,) = folder.glob("*.deb")
    did("dpkg-deb", "-x", archive, folder)
    archive.unlink()


def dependency(package: str, pattern: str) -> str:
    """The name of the package that this one stands for."""
    need_debian(f"getting {package}")
    told = _after_update_if_need_be("apt-cache", "depends", package)
    found = re.search(rf"Depends: ({pattern})$", told, re.MULTILINE)
    if not found:
        raise Unavailable(f"Debian's {package} depends on nothing like {pattern!r}: is apt's list of packages whole?")
    return found[1]


def _after_update_if_need_be(*command: str, cwd: Path | None = None) -> str:
    """A machine that is fresh has no lists of packages, and one that is old has lists of what is gone."""
    try:
        return did(*command, cwd=cwd)
    except Unavailable:
        _update()
        return did(*command, cwd=cwd)
