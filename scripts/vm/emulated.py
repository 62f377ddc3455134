"""A machine whose processor has virtualization, emulated in software: QEMU's SVM, under a kernel of Debian's.

That kernel has a working /dev/kvm, on which the unmodified microsandbox boots real microVMs, ten to twenty times slower
than on hardware. The machine has no network but loopback and sees this machine's files copy on write; a disk, the same
at the start of each run, holds microsandbox's home with the images in it. Standard library only.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from scripts.vm import parts

INIT = Path(__file__).with_name("init.sh")
DEVICES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_rng", "9pnet_virtio", "kvm_amd")
FILE_SYSTEMS = ("9p", "overlay", "ext4")
FOLDERS = ("bin", "dev", "disk", "lab", "lower", "modules", "proc", "root", "sys")
MEMORY = "5G"
DISK = "8G"
ENDED = 70
TEMPORARY = "/vm"
"""Inside, on the disk; short, for the names of sockets."""

KERNEL_ARGUMENTS = "console=ttyS0 panic=-1 mitigations=off audit=0 random.trust_cpu=on clearcpuid=rep_good"
PROCESSOR = "max,-erms,-la57"
"""Emulated string instructions (erms, rep_good) go byte by byte: memory is copied up to eight times faster without.

One of them only: with two, each in a thread of its own, QEMU 7.2 loses the release of a lock once in some hundred boots
of a microVM (both processors then wait for the same one, with interrupts off), or the kernel panics."""


def prepare(cache: Path, made_from: str, home: Path, fill: Callable[[], None]) -> Machine:
    """The machine, whose disk holds what `fill` puts into `home`; it is seen there at the same path."""
    parts.install({"qemu-system-x86_64": "qemu-system-x86"})
    kernel = parts.part(cache, "kernel", parts.key(Path(__file__), INIT), _make_kernel)
    disk = parts.part(cache, "disk", made_from, lambda fresh: _make_disk(fresh, home, fill))
    return Machine(cache, kernel, disk / "disk.ext4", home)


def _make_kernel(fresh: Path) -> None:
    parts.install({"depmod": "kmod"})
    parts.say("getting a kernel")
    package = parts.dependency("linux-image-amd64", r"linux-image-\d\S+")
    unpacked, tree = fresh / "package", fresh / "tree"
    parts.unpacked(package, unpacked)
    parts.unpacked("busybox-static", fresh / "busybox")
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    version = image.name.removeprefix("vmlinuz-")
    parts.did("depmod", "-b", unpacked, version)

    for name in FOLDERS:
        (tree / name).mkdir(parents=True)
    shutil.copy(fresh / "busybox" / "bin" / "busybox", tree / "bin")
    for applet in parts.did(tree / "bin" / "busybox", "--list").split():
        if applet != "busybox":
            (tree / "bin" / applet).symlink_to("busybox")
    shutil.copy(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    order = _modules(unpacked, version)
    for module in order:
        shutil.copy(module, tree / "modules")
    (tree / "modules" / "order").write_text("".join(f"{module.name}\n" for module in order))
    _pack(tree, fresh / "initramfs")
    image.rename(fresh / "vmlinuz")
    for folder in (unpacked, tree, fresh / "busybox"):
        parts.remove(folder)


def _modules(root: Path, version: str) -> list[Path]:
    """The files of these modules and all that they need, in the order in which they load."""
    found: dict[Path, None] = {}
    for module in (*DEVICES, *FILE_SYSTEMS):
        told = parts.did("modprobe", "-d", root, "-S", version, "--show-depends", module)
        found |= dict.fromkeys(Path(line) for line in re.findall(r"^insmod (\S+)", told, re.MULTILINE))
    return list(found)


def _pack(tree: Path, archive: Path) -> None:
    names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    packed = subprocess.run(
        [tree / "bin" / "busybox", "cpio", "-o", "-H", "newc"],
        cwd=tree,
        input=names.encode(),
        capture_output=True,
        check=True,
    ).stdout
    archive.write_bytes(gzip.compress(packed, 1))


def _make_disk(fresh: Path, home: Path, fill: Callable[[], None]) -> None:
    """Of the home, which is filled where the machine will see it, for microsandbox notes absolute paths, then moved."""
    parts.install({"mke2fs": "e2fsprogs"})
    tree = fresh / "tree"
    for name in ("tmp", "upper", "work"):
        (tree / name).mkdir(parents=True)
    (tree / "tmp").chmod(0o1777)
    parts.remove(home)
    home.mkdir()
    fill()
    home.rename(tree / "home")
    image = fresh / "disk.ext4"
    parts.did("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", tree, image, DISK)
    parts.remove(tree)


@dataclass(frozen=True)
class Machine:
    """An emulated machine, booted anew for each run."""

    cache: Path
    kernel: Path
    disk: Path
    home: Path

    def run(
        self, command: list[str], environment: dict[str, str], out: Path, timeout_s: float, silence_s: float = math.inf
    ) -> int:
        """Run the command inside, in this folder; its status, or ENDED if the machine died, or hung: said nothing for
        `silence_s`. Raises TimeoutError, or Unavailable."""
        runs = self.cache / "runs"
        runs.mkdir(exist_ok=True)
        parts.forget_old(runs, "*")  # of runs that were killed
        with tempfile.TemporaryDirectory(dir=runs) as name:
            lab = Path(name)
            (lab / "places").write_text(f"microsandbox={shlex.quote(str(self.home))}\nout={shlex.quote(str(out))}\n")
            (lab / "command").write_text(_script(command, environment))
            has_hung = self._emulate(lab, out, timeout_s, silence_s)
            if (lab / "status").exists():
                return int((lab / "status").read_text())
            if (lab / "started").exists():
                what = f"has said nothing for {silence_s:.0f} s" if has_hung else "ended before the command did"
                parts.say(f"the emulated machine {what}; its last words:\n{_last_words(lab)}")
                return ENDED
            raise parts.Unavailable(f"the emulated machine did not come up; its last words:\n{_last_words(lab)}")

    def _emulate(self, lab: Path, out: Path, timeout_s: float, silence_s: float) -> bool:
        """Whether it hung. Its output is copied as it comes: QEMU would cut off a file it is given as its own."""
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self._words(lab, out)],
            env={**os.environ, "PATH": parts.SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stdout
        assert process.stderr
        heard = _Heard()
        copies = [
            threading.Thread(target=_copy, args=(process.stdout, sys.stdout.fileno(), heard), daemon=True),
            threading.Thread(target=_copy, args=(process.stderr, sys.stderr.fileno(), heard), daemon=True),
        ]
        for copy in copies:
            copy.start()
        until = time.monotonic() + timeout_s
        try:
            while process.poll() is None:
                if time.monotonic() > until:
                    raise TimeoutError
                if time.monotonic() > heard.at + silence_s:
                    return True
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
            return False
        finally:
            process.kill()
            process.wait()
            for copy in copies:
                copy.join(10)

    def _words(self, lab: Path, out: Path) -> list[str]:
        words = [
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-accel", "tcg,thread=single", "-cpu", PROCESSOR, "-smp", "1", "-m", MEMORY),
            *("-kernel", str(self.kernel / "vmlinuz"), "-initrd", str(self.kernel / "initramfs")),
            *("-append", KERNEL_ARGUMENTS, "-serial", f"file:{lab / 'console'}", "-device", "virtio-rng-pci"),
            *("-drive", f"file={self.disk},if=none,id=disk,format=raw,cache=unsafe,snapshot=on"),
            *("-device", "virtio-blk-pci,drive=disk", "-device", "virtio-serial-pci"),
        ]
        for tag, folder, access in (("machine", "/", ",readonly=on"), ("lab", lab, ""), ("out", out, "")):
            words += ["-fsdev", f"local,id={tag},path={folder},security_model=none,multidevs=remap{access}"]
            words += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            words += ["-chardev", f"file,id={name},path=/proc/self/fd/{descriptor},append=on"]
            words += ["-device", f"virtserialport,chardev={name},name={name}"]
        return words


def _script(command: list[str], environment: dict[str, str]) -> str:
    names = [name for name in environment if name.isidentifier()]
    exports = "".join(f"export {name}={shlex.quote(environment[name])}\n" for name in names)
    return f"{exports}cd {shlex.quote(str(Path.cwd()))} || exit\n{shlex.join(command)}\n"


def _last_words(lab: Path) -> str:
    console = lab / "console"
    said = console.read_text(errors="replace").splitlines() if console.exists() else []
    return "\n".join(f"  | {line}" for line in said[-25:]) or "  | (nothing on its console)"


@dataclass
class _Heard:
    """When the machine last said something."""

    at: float = field(default_factory=time.monotonic)


def _copy(source: IO[bytes], descriptor: int, heard: _Heard) -> None:
    with contextlib.suppress(BrokenPipeError):
        while piece := os.read(source.fileno(), 65536):
            heard.at = time.monotonic()
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
