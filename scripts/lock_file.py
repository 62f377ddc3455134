"""Reads a Python lock in requirements/: which packages, at which versions, with which hashes, and who needs them.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^ ;]+)(?: ; (?P<marker>.+))?")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package of a lock; a package has several where systems or Pythons need different versions."""

    name: str
    """As PyPI normalises it."""
    version: str
    marker: str | None
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]
    """Names of packages, or where in the project it is asked for: "codemode-server (pyproject.toml)"."""


def read_lock(path: Path) -> list[Pin]:
    """All packages of a lock, in its order.

    Raises:
        ValueError: a line is not of the form that `make lock` writes.
    """
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return [_pin(entry) for entry in _entries(lines)]


def runtime_names(pins: Iterable[Pin]) -> set[str]:
    """Names of the packages that a user installs: what `dependencies` in pyproject.toml names, and what that needs."""
    pins = list(pins)
    reached = {"codemode-server (pyproject.toml)"}
    while True:
        more = {pin.name for pin in pins if reached.intersection(pin.needed_by)} - reached
        if not more:
            return {pin.name for pin in pins} & reached
        reached |= more


def normalised(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _entries(lines: Iterable[str]) -> Iterator[list[str]]:
    entry: list[str] = []
    for line in lines:
        if not line.startswith((" ", "#")):
            if entry:
                yield entry
            entry = [line]
        elif entry:
            entry.append(line)
    if entry:
        yield entry


def _pin(entry: list[str]) -> Pin:
    pinned = _PIN.fullmatch(entry[0].removesuffix("\\").strip())
    if pinned is None:
        raise ValueError(f"not a pinned package: {entry[0]!r}")
    hashes = tuple(found.group(1) for line in entry if (found := _HASH.search(line)))
    comments = [line.strip().removeprefix("#").strip() for line in entry if line.lstrip().startswith("#")]
    needed_by = (comment.removeprefix("via").strip() for comment in comments)
    return Pin(
        normalised(pinned["name"]),
        pinned["version"],
        pinned["marker"],
        hashes,
        tuple(re.sub(r"^([A-Za-z0-9._-]+)\[.*\]$", r"\1", name) for name in needed_by if name),
    )
