"""The records of a trial: JSON lines that are only appended, each with the plan's hash.

Lines are the plan itself (first), each request with its usage, what was said since the last one and the reply, and each
run that has ended. What has the line of a run is not run again. A line that a kill has cut is ended and left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from benchmarks.trial.plan import differences, hash_of


class RecordsError(Exception):
    """Raised when a file belongs to another trial, or to one that is running."""


class Records:
    def __init__(self, path: Path, plan: dict[str, Any]) -> None:
        """Open a file for this plan, which is written first if the file is new.

        Raises:
            RecordsError: it has records of another plan, or another process writes it.
        """
        self._path, self._hash = path, hash_of(plan)
        self._lock = FileLock(f"{path}.lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise RecordsError(f"{path}: another trial is writing to it") from None
        path.touch()
        text = path.read_bytes()
        if text and not text.endswith(b"\n"):
            self._append("\n")
        lines = list(read(path))
        others = {line["plan"] for line in lines} - {self._hash}
        if others:
            changed = next((differences(line["frozen"], plan) for line in lines if line["kind"] == "plan"), [])
            self.close()
            raise RecordsError(
                f"{path} has records of the plan {', '.join(sorted(others))}, this one is {self._hash}; "
                f"changed: {', '.join(changed) or 'not known'}. Use another file: results of two plans don't mix"
            )
        self.done = {line["cell"] for line in lines if line["kind"] == "run"}
        self.spent = sum(line["cost"] for line in lines if line["kind"] == "request")
        """Money, runs that did not end included."""
        if not lines:
            self.add("plan", frozen=plan)

    def add(self, kind: str, **values: Any) -> None:
        self.spent += values["cost"] if kind == "request" else 0
        self._append(json.dumps({"kind": kind, "plan": self._hash, **values}, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._lock.release()

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)


def read(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            yield json.loads(line)
        except ValueError:  # cut
            continue
