"""Measures the time of one search, in the processor time of the thread that searches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.privacy.records import records
from codemode_server.privacy.detector import Detector

SIZES = {"10 KB": 10_000, "1 MB": 1_000_000}
_ROUNDS = 5
_LOG_LINE = (
    "2026-03-12T10:24:11.481Z INFO [worker-3] request GET /api/v1/items?page=3 took 12 ms, the session went on and"
    " saved what it had\n"
)


def costs() -> dict[str, dict[str, float]]:
    """Milliseconds by content and size, the best of some rounds."""
    detector = Detector()
    detector.in_value({"phone": "+49 30 901820", "iban": "DE89370400440532013000"})  # imports what numbers need
    made: dict[str, dict[str, float]] = {}
    for name, make in (("issues of a tracker", issues), ("lines of a log", log), ("records of this set", _dense)):
        made[name] = {size: best_ms(detector.in_value, make(count)) for size, count in SIZES.items()}
    return made


def best_ms(search: Callable[[Any], object], value: Any) -> float:
    """Milliseconds of processor time, the best of some rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.thread_time()
        search(value)
        best = min(best, time.thread_time() - began)
    return 1000 * best


def issues(size: int) -> Any:
    """Rows as JSON values. One row in twenty has an address."""
    rows: list[Any] = []
    length = 0
    while length < size:
        number = len(rows)
        row = {
            "id": number,
            "title": "The lamp in the hall does not go out",
            "state": "open",
            "labels": ["bug", "hall"],
            "body": "It stays on after the button is pressed; see the log for details and the attached screenshot.",
            "author": {"email": f"a{number}@example.com"} if number % 20 == 0 else {"login": f"user-{number}"},
            "created_at": "2026-03-01T10:11:12Z",
        }
        rows.append(row)
        length += len(json.dumps(row))
    return {"rows": rows}


def log(size: int) -> Any:
    return _LOG_LINE * (size // len(_LOG_LINE))


def _dense(size: int) -> Any:
    values: list[Any] = []
    length = 0
    for record in records(size // 100, seed=5):
        if length >= size:
            break
        values.append(record.value)
        length += len(record.text)
    return values
