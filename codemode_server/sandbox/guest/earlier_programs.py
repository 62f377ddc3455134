"""Results and checkpoints of earlier programs: `codemode.results` and `codemode.checkpoint`."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from .files import from_reply
from .link import Link
from .values import to_argument

FILE = "/workspace/state/checkpoint.json"
MAX_BYTES = 64 * 1024


class Results(Mapping[str, Any]):
    """Whole results of earlier programs of the session, read from the host on demand, by the names in their
    answers: `results["x7f3a9c21b04"]`, of a call of one that failed `results["x7f3a9c21b04/calls/3"]`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"results are named by text, as their answers say, not by {type(name).__name__}")
        return from_reply(*self._link.reply("artifact", KeyError, name=name))

    @property
    def last(self) -> Any:
        """The last value."""
        values = [name for name in self if "/" not in name]
        if not values:
            raise LookupError("no program of this session has returned a value yet")
        return self[values[-1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._link.ask("artifact", KeyError, name=None))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def __repr__(self) -> str:
        return f"<results: {', '.join(self) or 'none'}>"


class Checkpoint:
    """`checkpoint`: how far a task has come, stored in /workspace so that a program of a later session continues.

    The file is replaced as a whole, so a program that is killed leaves the old checkpoint or the new one.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def save(self, step: Any, context: Any = None) -> None:
        """Replace the checkpoint: the step that is done, and what a later program needs to continue.

        Both are JSON values, together at most 64 KiB; larger data belongs into files in /workspace. A dict alone is
        refused as step: give it as context.
        """
        if isinstance(step, dict) and context is None:
            raise TypeError("checkpoint.save(step, context): step says what is done; give this dict as context=")
        point = {
            "step": to_argument(step, "checkpoint.save: step is no JSON"),
            "last_task": self._link.execution_id,
            "context": to_argument(context, "checkpoint.save: context is no JSON"),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time())),
        }
        data = json.dumps(point, ensure_ascii=False).encode("utf-8", "replace")
        if len(data) > MAX_BYTES:
            raise ValueError(
                f"checkpoint.save: step and context take {len(data):,} bytes, at most {MAX_BYTES:,} are stored; "
                "write the data to a file in /workspace and save its name"
            )
        file = pathlib.Path(FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".checkpoint-{self._link.execution_id}-{threading.get_ident()}")
        try:
            with unfinished.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(file)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint of any session, a dict with `step`, `context`, `last_task` (the id of the execution that
        saved it) and `timestamp`; None if none was saved."""
        try:
            with pathlib.Path(FILE).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            point = json.loads(data.decode()) if len(data) <= MAX_BYTES else None
        except ValueError:
            point = None
        if not isinstance(point, dict) or "step" not in point:
            raise ValueError(f"{FILE} is not a checkpoint; checkpoint.save(step=..., context=...) replaces it")
        return {"context": None, **point}

    def __repr__(self) -> str:
        return "<checkpoint: save(step=..., context=...), load()>"
