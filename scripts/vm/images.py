"""The two images of the lab, made without a registry as docker-archives: Debian with Python, and one without.

Their layers leave out what no test reads: apt's files, documentation, translations. Standard library only.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from scripts.vm import parts

PYTHON = "codemode.test/python:3.11"
NO_PYTHON = "codemode.test/no-python:1"
PACKAGES = "python3,tzdata,media-types"
LEFT_OUT = (
    "./dev/",
    "./var/cache/",
    "./var/lib/apt/",
    "./var/log/",
    "./usr/share/doc/",
    "./usr/share/info/",
    "./usr/share/locale/",
    "./usr/share/man/",
    "./usr/lib/apt/",
)
APPLETS = ("sh", "cat", "echo", "env", "id", "ls", "mkdir", "sleep", "stat", "test", "true", "uname")
ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
LONG_AGO = "2026-01-01T00:00:00Z"


def folder(cache: Path) -> Path:
    """Both archives: `python.tar` and `no-python.tar`."""
    return parts.part(cache, "images", parts.key(Path(__file__)), _make)


def _make(fresh: Path) -> None:
    parts.need_debian("making an image", root=True)
    parts.install({"debootstrap": "debootstrap"})
    parts.say("making the image with Python (a minute or two, once)")
    root = fresh / "root"
    parts.did("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root)
    write_archive(fresh / "python.tar", PYTHON, lambda layer: layer.add(root, arcname=".", filter=_kept), ["python3"])
    parts.remove(root)

    parts.unpacked("busybox-static", root)
    write_archive(fresh / "no-python.tar", NO_PYTHON, lambda layer: _tiny(layer, root / "bin" / "busybox"), ["sh"])
    parts.remove(root)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.startswith(LEFT_OUT) else member


def _tiny(layer: tarfile.TarFile, busybox: Path) -> None:
    for name in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        layer.addfile(member)
    layer.add(busybox, arcname="bin/busybox")
    for applet in APPLETS:
        member = tarfile.TarInfo(f"bin/{applet}")
        member.type, member.linkname = tarfile.SYMTYPE, "busybox"
        layer.addfile(member)
    add_file(layer, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    add_file(layer, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def write_archive(path: Path, reference: str, fill: Callable[[tarfile.TarFile], None], command: list[str]) -> None:
    """An image of one layer in `docker save`'s format."""
    with tempfile.NamedTemporaryFile(dir=path.parent) as spool, tarfile.open(path, "w") as archive:
        with tarfile.open(fileobj=spool, mode="w") as layer:
            fill(layer)
        spool.flush()
        spool.seek(0)
        digest = hashlib.file_digest(spool, "sha256").hexdigest()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "created": LONG_AGO,
            "config": {"Env": ENVIRONMENT, "Cmd": command},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created": LONG_AGO, "created_by": "scripts/vm/images.py"}],
        }
        described = json.dumps(config).encode()
        name = f"{hashlib.sha256(described).hexdigest()}.json"
        manifest = [{"Config": name, "RepoTags": [reference], "Layers": ["layer.tar"]}]
        add_file(archive, name, described)
        add_file(archive, "manifest.json", json.dumps(manifest).encode())
        archive.add(spool.name, arcname="layer.tar")


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))
