"""The lock of the packages (`pylock.packages.toml`, PEP 751): which wheels of which versions, with hashes.

`uv` resolves it, for the sandbox's Python and not the host's. It builds nothing and installs nothing, so nothing of a
package runs on the host. A lock that fits the settings is used as it is; otherwise its versions are preferred.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from packaging.utils import canonicalize_name
from pydantic import BaseModel, Field, ValidationError

from codemode_server.domain.errors import CodemodeError
from codemode_server.processes import child_process
from codemode_server.sandbox.packages.installed import names_of
from codemode_server.support.extras import install_command
from codemode_server.support.file_records import digest_of_file, trust_own_change
from codemode_server.support.text import clean_line, first_few, one_line
from codemode_server.support.untrusted_files import read_regular

PYTHON = "3.14"
"""The version of the sandbox's Python."""
MACHINE = {"arm64": "aarch64", "aarch64": "aarch64"}.get(platform.machine().lower(), "x86_64")
"""The architecture of this machine and so of its microVMs, as wheels name it."""
NO_NETWORK = "once there is a network, run `codemode-server setup`, and restart the host"
_RESOLVE_SECONDS = 300.0
_MAX_LOCK_BYTES = 2**19
_MAX_LINE_BYTES = 4_000
"""Limit of a line in a lock. A longer key would take `tomllib` minutes."""
_MAX_REASON_CHARACTERS = 500
_MAX_CAUSE_CHARACTERS = 120
_TOOL = "codemode-server"
_UNKNOWN = re.compile(r"(\S+) was not found in the package registry")
_TEXT_OF_AUTHORS = re.compile(r"\(reason:|could not be parsed:|was invalid:")
"""Where text of a package's author begins in what uv says. It is left out, since a model may read the reason."""
_WHEELLESS = re.compile(r"(?:Wheels are required|we only found wheels) for `([^`]+)`")


class NotInstalled(CodemodeError):
    """Raised when packages can't be installed; `remedy` is what the person can do, or empty."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Wheel:
    """The file of one package."""

    name: str
    version: str
    url: str
    size: int | None
    """Bytes; None if the index does not say."""
    sha256: str

    @property
    def is_portable(self) -> bool:
        """True if it has no native code."""
        return self.url.endswith("-any.whl")


class _Hashes(BaseModel):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _LockedWheel(BaseModel):
    url: Annotated[str, Field(pattern=r"^https?://[^\s]+\.whl$", max_length=2_000)]
    size: int | None = Field(default=None, ge=0)
    hashes: _Hashes


class _LockedPackage(BaseModel):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$", max_length=200)]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9.!+_-]+$", max_length=100)]
    wheels: list[_LockedWheel] = Field(min_length=1)


class _Lock(BaseModel):
    packages: list[_LockedPackage] = []
    tool: dict[str, Any] = {}

    def fits(self, requirements: tuple[str, ...]) -> bool:
        """True if it was made for these requirements, the sandbox's Python, and this machine."""
        return self.tool.get(_TOOL) == _own_table(requirements) and all(
            wheel.is_portable or MACHINE in wheel.url.rpartition("-")[2] for wheel in self.wheels()
        )

    def wheels(self) -> list[Wheel]:
        return [
            Wheel(it.name, it.version, it.wheels[0].url, it.wheels[0].size, it.wheels[0].hashes.sha256)
            for it in self.packages
        ]


def read(lock: Path, requirements: tuple[str, ...]) -> list[Wheel] | None:
    """The wheels of a lock; None if there is none, or it was made for other requirements or another kind of machine.
    Raises `NotInstalled` if it is no lock."""
    try:
        content = read_regular(lock, _MAX_LOCK_BYTES)
        if len(content) > _MAX_LOCK_BYTES or max(map(len, content.split(b"\n"))) > _MAX_LINE_BYTES:
            raise ValueError("it is too large")
        found = _Lock.model_validate(tomllib.loads(content.decode()))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _broken(lock, f"{place}: {first['msg']}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(lock, str(error)) from None
    return found.wheels() if found.fits(requirements) else None


async def resolve(requirements: tuple[str, ...], lock: Path, private: Path) -> list[Wheel]:
    """Make the lock with `uv`; versions of the one that is there are preferred. Raises `NotInstalled`, `OSError`."""
    # uv reads the settings of folders above, so none of them may be anybody's, as /tmp is.
    with tempfile.TemporaryDirectory(dir=private) as folder:
        made = Path(folder, "pylock.packages.toml")
        with suppress(FileNotFoundError):
            shutil.copyfile(lock, made)
        await _compile(requirements, made)
        return _stored(made, requirements, lock)


async def _compile(requirements: tuple[str, ...], lock: Path) -> None:
    source = lock.with_name("packages.in")
    source.write_text("\n".join(requirements) + "\n", encoding="utf-8")
    command = [*_uv(), "pip", "compile", "--quiet", "--color=never", "--no-build", "--no-python-downloads"]
    command += ["--python", sys.executable, "--python-version", PYTHON]
    command += ["--python-platform", f"{MACHINE}-manylinux_2_28", "--format", "pylock.toml", "--no-header"]
    command += ["--directory", str(lock.parent), "--output-file", lock.name, source.name]
    try:
        run = await child_process.run(command, env=os.environ, seconds=_RESOLVE_SECONDS)
    except TimeoutError:
        raise NotInstalled(f"uv took longer than {_RESOLVE_SECONDS:g} seconds to find versions that fit") from None
    except OSError as error:
        raise NotInstalled(f"uv can't be started: {error.strerror}", _install_uv()) from None
    if run.returncode != 0:
        raise _refusal(run.stderr, requirements)


def _own_table(requirements: tuple[str, ...]) -> dict[str, Any]:
    return {"requirements": sorted(requirements), "python": PYTHON}


def _uv() -> list[str]:
    if found := os.environ.get("UV") or shutil.which("uv"):
        return [found]
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-I", "-m", "uv"]
    raise NotInstalled("`uv`, which finds versions that fit together, is not installed", _install_uv())


def _install_uv() -> str:
    return f"run: {install_command('packages')}"


def _stored(made: Path, requirements: tuple[str, ...], lock: Path) -> list[Wheel]:
    """The wheels of a new lock, which is put beside the configuration in one step."""
    lines = (f"{key} = {json.dumps(value)}" for key, value in _own_table(requirements).items())
    with made.open("a", encoding="utf-8") as file:
        file.write("\n".join(["", f"[tool.{_TOOL}]", *lines, ""]))
    wheels = read(made, requirements)
    if wheels is None:
        raise NotInstalled("uv made a lock for another machine")
    before = digest_of_file(lock)
    unfinished = lock.with_name(f".{lock.name}.{secrets.token_hex(4)}")
    try:
        shutil.copyfile(made, unfinished)
        unfinished.replace(lock)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = f"the lock '{one_line(str(lock))}' can't be written: {error.strerror}"
        raise NotInstalled(reason, "set sandbox.packages_lock to a path in a folder that you can write to") from None
    trust_own_change(lock, before, digest_of_file(made))
    return wheels


def _broken(lock: Path, why: str) -> NotInstalled:
    reason = f"'{one_line(str(lock))}' is no lock of packages: {clean_line(why, _MAX_REASON_CHARACTERS)}"
    return NotInstalled(reason, "remove it, and the next start makes another")


def _refusal(stderr: str, requirements: tuple[str, ...]) -> NotInstalled:
    """Translates uv's message into terms of the settings."""
    stderr = _TEXT_OF_AUTHORS.split(stderr)[0]
    text = " ".join(re.sub(r"(?m)^\s*(error|cause|hint):", " ", stderr).split())
    if names := sorted(set(_UNKNOWN.findall(text))):
        listed = sorted(map(canonicalize_name, names_of(requirements)))
        are_listed = set(names) <= set(listed)
        needed = f"one of these needs it: {first_few(listed, 5)}"
        remedy = "correct its name in sandbox.packages" if are_listed else needed
        return NotInstalled(f"the package index has no package {one_line(', '.join(names))}", remedy)
    if "Failed to fetch" in stderr or "error sending request" in stderr:
        host = re.search(r"https?://([^/\s)`]+)", stderr)
        place = one_line(host[1].rpartition("@")[2]) if host else "of uv"
        last = clean_line(stderr.rpartition("cause:")[2], _MAX_CAUSE_CHARACTERS)
        return NotInstalled(f"the package index {place} can't be read ({last})", NO_NETWORK)
    if names := sorted(set(_WHEELLESS.findall(text))):
        reason = f"{one_line(', '.join(names))}: no version that fits has a wheel for Python {PYTHON} on {MACHINE}"
        remedy = "others would have to be built, which would run their code here; remove it from sandbox.packages"
        return NotInstalled(reason, remedy)
    _, has_none, why = text.partition("No solution found when resolving dependencies")
    if has_none:
        why = clean_line(why.strip(": ╰─▶."), _MAX_REASON_CHARACTERS)
        return NotInstalled(f"no versions fit together: {why}", "change the versions in sandbox.packages")
    return NotInstalled(f"uv failed: {clean_line(text, _MAX_REASON_CHARACTERS)}")
