"""The results of one program's succeeded calls, until it is known whether the program failed.

A program that succeeds returns what it needs of them, so they are dropped. Those of a program that fails become an
artifact, which later programs read by the numbers of the calls. They are in memory up to a bound, beyond it in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from codemode_server.calls.results import ResultSummary
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Owner
from codemode_server.executions.artifacts import ArtifactStore, Item, Part, raising_not_stored
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import json_bytes
from codemode_server.support.off_loop import run_large

MAX_MEMORY_BYTES = 4 * 2**20
"""Memory of the results that are held for one program, estimated; what exceeds it is written to a file."""


@dataclass(slots=True)
class CallResults:
    """Used on the event loop."""

    store: ArtifactStore
    _held: dict[int, Reply] = field(default_factory=dict)
    _held_bytes: int = 0
    _total_bytes: int = 0
    """Bytes of all results as JSON."""
    _written: dict[int, Part] = field(default_factory=dict)
    _path: Path | None = None
    _is_closed: bool = False
    """Set when they are an artifact or dropped; a write that comes later does nothing."""
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    def add(self, seq: int, reply: Reply, size: ResultSummary) -> bool:
        """Take the result of call `seq`; True if `write` has to be called now."""
        if self._is_closed or self._total_bytes + size.bytes > self.store.max_bytes:
            return False
        self._held[seq] = reply
        self._held_bytes += size.memory_bytes
        self._total_bytes += size.bytes
        return self._held_bytes > MAX_MEMORY_BYTES

    async def write(self) -> None:
        """Move what is held in memory to the file; what can't be written is lost. Raises `NotStored` if it can't be
        written."""
        async with self._writing:
            await self._write_held()

    async def _write_held(self) -> None:
        held, self._held, self._held_bytes = self._held, {}, 0
        if held and not self._is_closed:
            await run_large(self._append, held)

    def _append(self, held: Mapping[int, Reply]) -> None:
        if self._path is None:
            self._path = self.store.new_file()
        with raising_not_stored(), self._path.open("ab") as file:
            for seq, reply in held.items():
                start = file.tell()
                file.write(json_bytes(reply.value))
                self._written[seq] = Part(start, file.tell() - start, reply.encoding)
                file.write(b"\n")

    async def store_for(self, owner: Owner, execution_id: ExecutionId) -> Item | None:
        """Make them an artifact of the owner; None if there are none. Raises `NotStored` if they can't be written, or
        exceed the limits on artifacts."""
        async with self._writing:
            await self._write_held()
            self._is_closed = True
            path, self._path = self._path, None
        if path is None:
            return None
        item = Item(f"{execution_id}/calls", "calls", path.stat().st_size, "application/x-ndjson")
        return self.store.adopt(owner, item, path, dict(sorted(self._written.items())))

    async def drop(self) -> None:
        """Forget them all, once what is being written is written; to be shielded from cancellation."""
        async with self._writing:
            self._is_closed = True
            self._held = {}
            path, self._path = self._path, None
        if path is not None:
            path.unlink(missing_ok=True)
