"""Finds the runtime of microsandbox, and what this machine lacks to boot microVMs with it.

`msb doctor` checks the processor and `/dev/kvm`; this module checks the folder MSB_HOME, its file system and its disk.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from subprocess import CompletedProcess

import anyio.to_thread

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.processes.child_process import run
from codemode_server.sandbox import registry
from codemode_server.support.extras import install_command
from codemode_server.support.text import clean_line

_DOCTOR_SECONDS = 60.0
"""Far more than the usual 10 ms, for emulated machines with cold disks."""
_NOT_FOUND = 127
_MSB = f"""
try:
    from microsandbox._cli import main
except ImportError:
    raise SystemExit({_NOT_FOUND})
main()
"""
"""The script `msb` of the package, whose own file may not be beside Python. It exits with `_NOT_FOUND` also if the
runtime is incomplete."""
_KVM = Path("/dev/kvm")
_FREE_MB = 128
"""Space for what VMs write beside the image; a pull that needs more fails with its own message."""


def version() -> str | None:
    """The version of the package `microsandbox`, or None where it is not installed; imports nothing of it."""
    if importlib.util.find_spec("microsandbox") is None:
        return None
    return importlib.metadata.version("microsandbox")


def home() -> Path:
    configured = os.environ.get("MSB_HOME")
    return Path(configured).absolute() if configured else Path.home() / ".microsandbox"


def find() -> Path:
    """The command `msb` of the runtime that the SDK uses, without installing or downloading anything; imports the SDK.
    Raises `SandboxUnavailable` if it is missing or incomplete."""
    if version() is None:
        raise not_installed(sys.platform, platform.machine())
    try:
        from microsandbox import MicrosandboxError
        from microsandbox.setup import resolve_runtime
    except ImportError as error:
        raise SandboxUnavailable(
            f"the package 'microsandbox' can't be loaded: {error}", "install codemode-server again"
        ) from error
    try:
        return Path(resolve_runtime().msb_path)
    except MicrosandboxError as error:
        raise home_problem() or SandboxUnavailable(
            f"the runtime of microsandbox is not complete: {error}",
            f"take away what is left of another installation in {home()}/bin and {home()}/lib, "
            "and MSB_PATH from the environment; the package brings its own",
        ) from error


def msb_command() -> str:
    """The command with which the person runs `msb`, which the package installs beside Python."""
    beside = Path(sys.executable).with_name("msb")
    return str(beside) if beside.exists() else "msb"


async def msb(*arguments: str, seconds: float) -> CompletedProcess[str]:
    """Run `msb` without importing the SDK; it is killed when this is cancelled or takes too long. Raises
    `SandboxUnavailable` if it cannot be run, or has not ended in time."""
    if version() is None:
        raise not_installed(sys.platform, platform.machine())
    # VMs run on this machine, even if the person has configured a cloud.
    environment = {**os.environ, "MSB_BACKEND": "local"}
    try:
        done = await run([sys.executable, "-P", "-c", _MSB, *arguments], env=environment, seconds=seconds)
    except TimeoutError:
        raise SandboxUnavailable(
            f"`msb {arguments[0]}` has not ended within {seconds:g} seconds", "try again", is_temporary=True
        ) from None
    except OSError as error:
        raise SandboxUnavailable(
            f"{sys.executable} can't be run: {error.strerror}", "install codemode-server again"
        ) from error
    if done.returncode == _NOT_FOUND:
        await anyio.to_thread.run_sync(find)
    return done


async def doctor() -> SandboxUnavailable | None:
    """The first reason why this machine cannot boot microVMs, found without booting one."""
    return await virtualization() or await anyio.to_thread.run_sync(home_problem)


async def virtualization() -> SandboxUnavailable | None:
    try:
        done = await msb("doctor", seconds=_DOCTOR_SECONDS)
    except SandboxUnavailable as error:
        return error
    return None if done.returncode == 0 else read_doctor(done.stderr + done.stdout)


def read_doctor(report: str) -> SandboxUnavailable:
    """The error in a report of a failed `msb doctor`, and its advice: the commands to run, if it names any."""
    found = [line.strip() for line in report.rpartition("error: ")[2].splitlines() if line.strip()]
    advice = [line.removeprefix("→").strip() for line in found[1:]]
    commands = [line for line in advice if line.startswith("sudo ")]
    reason = clean_line(found[0] if found else "msb doctor failed", 300)
    return SandboxUnavailable(reason, clean_line("; ".join(commands or advice), 600) or "`msb doctor` tells more")


def home_problem() -> SandboxUnavailable | None:
    """The problem with MSB_HOME, if any; creates no folder."""
    folder = home()
    elsewhere = "set MSB_HOME in the environment to a path"
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".codemode-") as probe:
            if sys.platform == "linux":
                try:
                    os.setxattr(probe.fileno(), "user.codemode", b"1")
                except OSError:
                    return SandboxUnavailable(
                        f"the file system of {folder} (MSB_HOME) has no extended attributes",
                        f"{elsewhere} on ext4, xfs or btrfs",
                    )
    except OSError as error:
        return SandboxUnavailable(
            f"the folder {folder} (MSB_HOME) can't be written: {error.strerror}", f"{elsewhere} that you may write"
        )
    if (free := free_mb(place)) < _FREE_MB:
        return SandboxUnavailable(
            f"{free} MB are free where {folder} (MSB_HOME) is, and microVMs need {_FREE_MB}",
            "free some, or set MSB_HOME in the environment to a folder on another disk",
            is_temporary=True,
        )
    return None


def free_mb(folder: Path) -> int:
    """Free space on the disk of a folder, or of its nearest existing parent, MiB."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return shutil.disk_usage(place).free // 2**20


def is_proposed() -> bool:
    """True if this machine can probably run microVMs and the extra that does is not installed."""
    return version() is None and _is_capable()


def is_expected() -> bool:
    """True if the extra is installed, and this machine can probably run microVMs."""
    return version() is not None and _is_capable()


def not_installed(system: str, machine: str) -> SandboxUnavailable:
    """Why the package is not installed; arguments as of `sys.platform` and `platform.machine()`."""
    if not _is_supported(system, machine):
        name = {"win32": "Windows", "linux": "Linux", "darwin": "macOS"}.get(system, system)
        return SandboxUnavailable(f"there are no microVMs of microsandbox for {name} on {machine}")
    command = install_command("microvm")
    if _has_virtualization():
        return SandboxUnavailable("this machine can run microVMs, and the extra `microvm` is not installed", command)
    return SandboxUnavailable(
        f"this machine can't run microVMs: it has no {_KVM}, or its processor no virtualization",
        f"turn on virtualization, then: {command}",
    )


def _is_capable() -> bool:
    return _is_supported(sys.platform, platform.machine()) and _has_virtualization()


def _is_supported(system: str, machine: str) -> bool:
    return (system, machine.lower()) in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))


def _has_virtualization() -> bool:
    """What can be known without the package, whose `msb doctor` checks more."""
    if sys.platform == "darwin":
        return True
    has_flag = platform.machine() != "x86_64" or re.search(r"\b(vmx|svm)\b", registry.processor_features()) is not None
    return has_flag and _KVM.exists()
