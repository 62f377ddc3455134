"""One microVM: boots with a supervisor, runs one program after another, and is killed at the end.

It shares with the host: /workspace, bound from a folder and owned by the programs' user inside; the guest's modules and
the packages, read-only; and one vsock route to a socket that is removed once the supervisor has connected. It has no
network and no environment variables of the host.
"""

from __future__ import annotations

import contextlib
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import SocketStream

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm.wire import Wire, WireBroken
from codemode_server.sandbox.packages.installed import GUEST_FOLDER
from codemode_server.sandbox.registry import SandboxSettings

if TYPE_CHECKING:
    from microsandbox import ExecHandle, Sandbox

_log = logging.getLogger(__name__)

GUEST = Path(__file__).resolve().parents[2] / "guest"
USER = 65_534
"""The programs' user in the guest."""
_PORT = 5_000
_BOOT_SECONDS = 90.0
_END_SECONDS = 10.0
_KILL_SECONDS = 10.0
_MODULES = "/opt/codemode"
_START = f"import sys; sys.path.insert(0, {_MODULES!r}); from codemode_guest import supervisor; supervisor.main()"
_PYTHON = {"PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1", "PYTHONPATH": "", "PYTHONHOME": ""}
"""Isolates Python as `-I` would, and gives texts the same hashes in every machine, so that a program that runs again
finds its sets in the same order."""
_MIN_PYTHON = (3, 11)
_OTHER_IMAGE = "set `sandbox.image` to a full image with Python 3.11 or newer, for instance python:3.14-slim"


class BootFailed(SandboxUnavailable):
    """Raised when the runtime could not boot a microVM. The failure may be transient, so one retry is worthwhile."""

    @property
    def is_answer_lost(self) -> bool:
        """True if the SDK asked `msb` what it supports and got no answer in time, as on a busy machine."""
        from microsandbox.errors import UnsupportedError

        return isinstance(self.__cause__, UnsupportedError)


class Machine:
    def __init__(self, name: str, box: Sandbox, wire: Wire, errors: _Errors, workspace: Path | None) -> None:
        self.name = name
        self.wire = wire
        self.workspace = workspace
        self.born_at = self.used_at = time.monotonic()
        self.boot_seconds = 0.0
        self.pid: int | None = None
        """Id of the host process that runs the microVM, if it is known."""
        self._box = box
        self._errors = errors
        self._is_killed = False
        self.is_gone = False

    @classmethod
    async def boot(
        cls,
        settings: SandboxSettings,
        life_seconds: float,
        name: str,
        folder: Path,
        workspace: Path | None,
        packages: Path | None,
    ) -> Machine:
        """Boots one and waits for its supervisor. `folder` is a private folder for its socket. After `life_seconds` the
        runtime ends it, as a last resort. Raises `SandboxUnavailable` if it can't be booted, or its image is
        unsuitable; says what to do."""
        began = time.monotonic()
        box: Sandbox | None = None
        try:
            with anyio.fail_after(_BOOT_SECONDS):
                async with _GuestListener(folder / f"{name[-6:]}.sock") as listener:
                    box = await _create(settings, life_seconds, name, listener.path, workspace, packages)
                    stream, errors = await _start_supervisor(box, settings, listener)
                    machine = cls(name, box, Wire(stream), errors, workspace)
                    await machine._meet(settings)
                    machine.pid = await anyio.to_thread.run_sync(_pid_of, name)
                machine.boot_seconds = time.monotonic() - began
                return machine
        except TimeoutError:
            await destroy(name, box)
            raise SandboxUnavailable(
                f"a microVM of {settings.image!r} did not come up within {_BOOT_SECONDS:g} seconds",
                "`codemode-server doctor` looks for the reason",
            ) from None
        except BaseException:
            await destroy(name, box)
            raise

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and not self.wire.is_broken

    async def end_program(self) -> dict[str, Any] | None:
        """Ends the program and cleans up; returns the supervisor's report, or None if the machine is unusable."""
        try:
            with anyio.fail_after(_END_SECONDS):
                ended = await self.wire.end()
                if ended.get("clean") is True:
                    await self.wire.hear("ready")
        except (WireBroken, TimeoutError):
            self.wire.is_broken = True
            return None
        self.wire.is_broken = self.wire.is_broken or ended.get("clean") is not True
        self.used_at = time.monotonic()
        return ended

    async def kill(self, within_s: float = _KILL_SECONDS) -> None:
        if self._is_killed:
            return
        self._is_killed = True
        with anyio.CancelScope(shield=True):
            await self.wire.aclose()
            self.is_gone = await destroy(self.name, self._box, within_s)

    async def _meet(self, settings: SandboxSettings) -> None:
        try:
            ready = await self.wire.hear("ready")
        except WireBroken:
            words = await self._errors.text()
            if "No module named" in words:
                words = f"its Python lacks parts of the standard library ({words})"
            reason = f"the runner did not start in the image {settings.image!r}: {words}"
            raise SandboxUnavailable(reason, _OTHER_IMAGE) from None
        version = str(ready.get("python", ""))
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _MIN_PYTHON:
            raise SandboxUnavailable(
                f"the image {settings.image!r} has Python {version[:20]}, and 3.11 is the least", _OTHER_IMAGE
            )


class _GuestListener:
    """The host's socket that the supervisor connects to, once; nothing listens there afterwards. If the boot fails or
    is cancelled, the connection is closed too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: SocketStream | None = None

    async def __aenter__(self) -> _GuestListener:
        self._listener = await anyio.create_unix_listener(self.path, mode=0o600)
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._listener.aclose()
            if error is not None and self._connection is not None:
                await self._connection.aclose()
        self.path.unlink(missing_ok=True)

    async def accept(self) -> SocketStream:
        self._connection = await self._listener.accept()
        return self._connection


class _Errors:
    """The supervisor's stderr, and how its process ended."""

    def __init__(self, handle: ExecHandle) -> None:
        self._handle = handle
        self._text = b""
        self.has_ended = False

    async def take_one(self) -> None:
        from microsandbox.errors import MicrosandboxError

        try:
            event = await self._handle.recv()
        except MicrosandboxError as error:
            self._text += f"\n{_reason(error)}".encode()
            event = None
        if event is None:
            self.has_ended = True
            return
        kind = str(event.event_type)
        if kind == "stderr" and event.data:
            self._text = (self._text + bytes(event.data))[-4_000:]
        elif kind in ("exited", "failed"):
            self.has_ended = True
            if kind == "failed":
                self._text += str(getattr(event, "data", None) or "").encode()

    async def text(self) -> str:
        with anyio.move_on_after(2):
            while not self.has_ended:
                await self.take_one()
        lines = [line for line in self._text.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip()[:500] if lines else "it said nothing"


async def _create(
    settings: SandboxSettings,
    life_seconds: float,
    name: str,
    socket: Path,
    workspace: Path | None,
    packages: Path | None,
) -> Sandbox:
    from microsandbox import (
        HostPermissions,
        Image,
        Network,
        PullPolicy,
        RootDisk,
        Sandbox,
        SecurityProfile,
        StatVirtualization,
        Volume,
    )
    from microsandbox.errors import ImageNotFoundError, MicrosandboxError

    bind: dict[str, Any] = {"nosuid": True, "nodev": True, "stat_virtualization": StatVirtualization.RELAXED}
    volumes = {
        f"{_MODULES}/codemode_guest": Volume.bind(str(GUEST), readonly=True, uid=0, gid=0, **bind),
        "/tmp": Volume.tmpfs(size_mib=settings.disk_mb, nosuid=True, nodev=True),  # noqa: S108 - the guest's
    }
    if packages is not None:  # on the host only their owner can read them, so inside the programs' user is the owner
        volumes[GUEST_FOLDER] = Volume.bind(str(packages), readonly=True, uid=USER, gid=USER, **bind)
    if workspace is not None:
        private: dict[str, Any] = {"uid": USER, "gid": USER, "host_permissions": HostPermissions.PRIVATE}
        volumes["/workspace"] = Volume.bind(str(workspace), **private, **bind)
    try:
        return await Sandbox.create(
            name,
            image=Image.oci(settings.image, root_disk=RootDisk.tmpfs(32)),
            memory=settings.memory_mb,
            cpus=settings.cpus,
            network=Network.none(),
            security=SecurityProfile.RESTRICTED,
            vsock={str(socket): _PORT},
            volumes=volumes,
            ephemeral=True,
            max_duration=life_seconds,
            pull_policy=PullPolicy.NEVER,
            labels={"made-by": "codemode-server"},
            hostname="sandbox",
        )
    except ImageNotFoundError as error:
        remedy = "`codemode-server setup` gets it"
        raise SandboxUnavailable(
            f"the image {settings.image!r} is not on this machine", remedy, is_temporary=True
        ) from error
    except MicrosandboxError as error:
        reason = f"a microVM of {settings.image!r} can't be booted: {_reason(error)}"
        raise BootFailed(reason, "`codemode-server doctor` looks for the reason") from error


async def _start_supervisor(
    box: Sandbox, settings: SandboxSettings, listener: _GuestListener
) -> tuple[SocketStream, _Errors]:
    """Starts the supervisor; returns the stream to it and its stderr."""
    from microsandbox import Stdin
    from microsandbox.errors import MicrosandboxError

    try:
        handle = await box.exec_stream(
            "python3",
            ["-s", "-B", "-X", "utf8", "-c", _START, str(_PORT)],
            env=_PYTHON,
            user="0",
            cwd="/",
            stdin=Stdin.null(),
        )
    except MicrosandboxError as error:
        raise _no_python(settings, _reason(error)) from error
    errors = _Errors(handle)
    accepted: list[SocketStream] = []

    async def accept() -> None:
        accepted.append(await listener.accept())
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(accept)
        while not errors.has_ended:  # as it does if it ends before it connects
            await errors.take_one()
        tasks.cancel_scope.cancel()
    if accepted:
        return accepted[0], errors
    raise _no_python(settings, await errors.text())


def _no_python(settings: SandboxSettings, words: str) -> SandboxUnavailable:
    if "not found" in words.lower() or "no such file" in words.lower() or "ENOENT" in words:
        words = "it has no python3"
    return SandboxUnavailable(f"no runner can be started in the image {settings.image!r}: {words}", _OTHER_IMAGE)


async def destroy(name: str, box: Sandbox | None, within_s: float = _KILL_SECONDS) -> bool:
    """Kills a machine by name, in any state, and unregisters it; False if that fails in time. The runtime ends every
    machine with the process that booted it, so at most its registration remains."""
    from microsandbox import Sandbox
    from microsandbox.errors import MicrosandboxError, SandboxNotFoundError

    with anyio.move_on_after(within_s, shield=True):
        try:
            target = box if box is not None else await Sandbox.get(name)
            await target.kill(timeout=within_s)
            await Sandbox.remove(name)
        except SandboxNotFoundError:
            return True
        except MicrosandboxError as error:
            _log.info("the microVM %s could not be struck off: %s", name, _reason(error))
            return False
        return True
    return False


def _pid_of(name: str) -> int | None:
    """The process id, found by command line in /proc, since the runtime does not report it."""
    own = Path("/proc/self/task").glob("*/children")
    for pid in {pid for children in own for pid in children.read_text().split()}:
        with contextlib.suppress(OSError):
            if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return int(pid)
    return None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
