"""Finds the image of the microVMs on this machine, or fetches it from a registry or an archive.

Fetching boots nothing, so it also works on a machine without virtualization. It runs `msb pull`, because the SDK pulls
only while creating a VM.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.support.text import clean, clean_line

_LOOK_SECONDS = 60.0
_LOAD_SECONDS = 900.0
_PULL_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Stored:
    reference: str
    digest: str
    """Digest of the manifest for this machine, not of an index over several platforms."""
    size_bytes: int


async def find(reference: str) -> Stored | None:
    """The image, if it is there. Raises `SandboxUnavailable` if microsandbox is missing, or can't list its
    images."""
    if not runtime.home().is_dir():
        return None  # `msb` would create the folder
    done = await runtime.msb("image", "inspect", "--format", "json", reference, seconds=_LOOK_SECONDS)
    if done.returncode != 0:
        if "image not found" in done.stderr:
            return None
        reason = f"the images in {runtime.home()} can't be read: {_error_in(done.stderr)}"
        raise _full_disk(done.stderr) or SandboxUnavailable(reason, is_temporary=True)
    found = json.loads(done.stdout)
    return Stored(reference, found["digest"], found["size_bytes"] or 0)


async def pull(reference: str, progress: Callable[[str], None]) -> Stored:
    """Pulls the image from its registry unless it is present; `progress` gets a line when it begins. A registry on this
    machine is contacted over plain HTTP, any other over HTTPS only. After a cancellation, the next pull continues with
    what was downloaded. Raises `SandboxUnavailable` with the reason and what to do."""
    if (stored := await find(reference)) is not None:
        return stored
    insecure = ["--insecure"] if is_on_this_machine(reference) else []
    progress("pulling the sandbox image")
    done = await runtime.msb("pull", *insecure, reference, seconds=_PULL_SECONDS)
    if done.returncode != 0:
        raise _pull_failure(reference, clean(done.stderr))
    return await _checked(reference)


async def load_archive(path: Path, reference: str) -> Stored:
    """Loads the image from an archive (of `docker save`, or an OCI layout) under the name `reference`. microsandbox
    does not compare digests here, so the archive must be trusted. `Stored.digest` is the actual digest. Raises
    `SandboxUnavailable` with the reason and what to do."""
    done = await runtime.msb("load", "--quiet", "--input", str(path), "--tag", reference, seconds=_LOAD_SECONDS)
    if done.returncode != 0:
        raise _full_disk(done.stderr) or SandboxUnavailable(
            f"{path} is no archive of an image: {_error_in(done.stderr)}",
            f"make one, not compressed, with: docker save --output {path.name} {reference.partition('@')[0]}",
            is_temporary=True,
        )
    return await _checked(reference)


async def _checked(reference: str) -> Stored:
    stored = await find(reference)
    if stored is None:
        raise SandboxUnavailable(
            f"the image {reference} is not there after all", "run: codemode-server setup", is_temporary=True
        )
    return stored


def is_on_this_machine(reference: str) -> bool:
    """True if the registry of a reference is on this machine, where no one can intercept the connection."""
    registry, slash, _ = reference.partition("/")
    host = registry.rpartition(":")[0] or registry
    try:
        return bool(slash) and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def _pull_failure(reference: str, text: str) -> SandboxUnavailable:
    return _full_disk(text) or SandboxUnavailable(
        f"the image {reference} can't be pulled: {_error_in(text)}",
        f"correct sandbox.image, or log in to its registry: {runtime.msb_command()} registry login REGISTRY; "
        "then run again: codemode-server setup; without a network: codemode-server setup --archive FILE",
        is_temporary=True,
    )


def _full_disk(text: str) -> SandboxUnavailable | None:
    if "No space left on device" not in text and "disk is full" not in text:
        return None
    folder = runtime.home()
    return SandboxUnavailable(
        f"the disk that holds {folder} is full: {runtime.free_mb(folder)} MB are free",
        "free some, or set MSB_HOME in the environment to a folder on another disk",
        is_temporary=True,
    )


def _error_in(text: str) -> str:
    """The error message of `msb`, which may contain text of the registry."""
    return clean_line(text.rpartition("error: ")[2], 300)
