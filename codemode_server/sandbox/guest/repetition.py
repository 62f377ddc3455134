"""Makes a program repeatable: begins its clocks and its randomness as the `run` frame says.

Texts have the same hashes in every sandbox, so sets have the same order: in a microVM by its environment, and in
WebAssembly as long as the same component is used, since it is a snapshot. Whatever else differs between two runs is not
hidden: addresses (`id`), process ids, the order of a folder's entries, the times of files, and what other processes do.
"""

from __future__ import annotations

import os
from typing import Any

from . import clocks, randomness
from .link import Link

_clocks = clocks.Clocks()
_randomness = randomness.Randomness()


def install() -> None:
    """Put it in place; until a program begins, clocks and randomness are the real ones."""
    clocks.install(_clocks)
    randomness.install(_randomness)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_clocks.forget_record)


def begin(link: Link, repeat: dict[str, Any]) -> None:
    """The program begins; nothing is left of an earlier one."""
    _randomness.begin(bytes.fromhex(repeat["key"]))
    _clocks.begin(repeat["wall"], repeat["monotonic"])
    link.clock_frames = _clocks.frames
