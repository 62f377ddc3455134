"""Makes a program repeatable: its randomness begins as the `run` frame says. It reads the real clock.

The randomness is a cryptographic stream from a key that the host draws anew for every program. A program that runs
again has the same key, so code that asks in the same order gets the same bytes. Everything in Python's library that is
random comes from here; in a microVM, `/dev/urandom`, OpenSSL's own generator and other processes than the program's
forks do not.

Texts have the same hashes in every sandbox, so sets have the same order: in a microVM by its environment, and in
WebAssembly as long as the same component is used, since it is a snapshot. Whatever else differs between two runs is not
hidden: addresses (`id`), process ids, the order of a folder's entries, the times of files, and other processes."""

from __future__ import annotations

import hashlib
import itertools
import operator
import os
import random
import threading
import uuid
from typing import Any

from .replacements import replace_members

_shake_256 = hashlib.shake_256
_urandom = os.urandom
_seed = random.Random.seed
_MULTICAST = 1 << 40
"""Set in the node of a UUID that is no address of a network card."""


class Randomness:
    def __init__(self) -> None:
        self._key = b""
        """Empty until a program begins. The n-th drawing from a key always gives the same."""
        self._numbers = itertools.count()
        self._of_thread = threading.local()
        """Its `key` is that of the process that a thread forks."""

    def begin(self, key: bytes) -> None:
        """The program begins, or a process that it has forked."""
        self._key, self._numbers = key, itertools.count()
        random.seed(self.bytes(32))
        # Not the address of a network card: it differs from one microVM to the next.
        replace_members(uuid, _node=int.from_bytes(self.bytes(6), "big") | _MULTICAST)

    def bytes(self, size: int, /) -> bytes:
        size = operator.index(size)
        if size < 0:
            raise ValueError("negative argument not allowed")
        if not self._key:
            return _urandom(size)
        return _shake_256(self._key + next(self._numbers).to_bytes(8, "big")).digest(size)

    def before_fork(self) -> None:
        self._of_thread.key = self.bytes(32)

    def after_fork_in_child(self) -> None:
        if self._key:
            self.begin(self._of_thread.key)


_randomness = Randomness()


def install() -> None:
    """Have everything in Python's library that is random draw from there; before a program begins it is as ever."""

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        _seed(self, _randomness.bytes(32) if a is None else a, version)

    replace_members(os, urandom=_randomness.bytes)
    if hasattr(os, "getrandom"):
        replace_members(os, getrandom=lambda size, flags=0: _randomness.bytes(size))
    replace_members(random, _urandom=_randomness.bytes)
    replace_members(random.Random, seed=seed)
    replace_members(random, seed=vars(random)["_inst"].seed)
    replace_members(uuid, _generate_time_safe=None, _UuidCreate=None)  # they have a clock and a node of their own
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_randomness.before_fork, after_in_child=_randomness.after_fork_in_child)


def begin(repeat: dict[str, Any]) -> None:
    """The program begins; nothing is left of an earlier one."""
    _randomness.begin(bytes.fromhex(repeat["key"]))
