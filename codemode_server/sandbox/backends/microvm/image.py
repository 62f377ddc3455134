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
from typing import Any

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
    """The image, if it is complete. Raises `SandboxUnavailable` if microsandbox is missing, or can't list its
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
    if not _is_whole(found):
        return None
    return Stored(reference, found["digest"], found["size_bytes"] or 0)


def _is_whole(image: dict[str, Any]) -> bool:
    """True if its files exist: the list of images still has it after somebody emptied the cache."""
    cache, digest = runtime.home() / "cache", image["digest"].replace(":", "_")
    names = [f"fsmeta/{digest}.erofs", f"vmdk/{digest}.vmdk"]
    names += [f"layers/{layer['diff_id'].replace(':', '_')}.erofs" for layer in image["layers"]]
    return all((cache / name).is_file() for name in names)


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
    host = _registry(reference).rpartition(":")[0] or _registry(reference)
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _registry(reference: str) -> str:
    first, slash, _ = reference.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else "docker.io"


def _pull_failure(reference: str, text: str) -> SandboxUnavailable:
    if (failure := _full_disk(text)) is not None:
        return failure
    error, registry = _error_in(text), _registry(reference)
    login = f"log in: {runtime.msb_command()} registry login {registry}"
    setup = "run again: codemode-server setup"
    offline = "without a network: codemode-server setup --archive FILE"
    cases = {
        ("error sending request",): (f"the registry {registry} can't be reached", f"{setup}; {offline}"),
        ("rate limit", "toomanyrequests", "too many requests", "code: 429"): (
            f"the registry {registry} lets nobody pull more from here for now",
            f"wait, or {login}",
        ),
        ("not authorized", "denied", "authentication required", "unauthorized"): (
            f"the registry {registry} does not give out the image {reference}",
            f"correct sandbox.image, or {login}",
        ),
        ("unknown", "not known", "not found", "code: 404", "invalid image reference"): (
            f"there is no image {reference}",
            "correct sandbox.image in upstream.yaml",
        ),
    }
    default = f"the image {reference} can't be pulled: {error}", setup
    lower = error.lower()
    reason, remedy = next((it for words, it in cases.items() if any(word in lower for word in words)), default)
    return SandboxUnavailable(reason, remedy, is_temporary=True)


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
