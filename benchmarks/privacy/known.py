"""Measures the search for known values: the time of the processor for 1 MB, beside 10,000 of them."""

from __future__ import annotations

import base64
import json
import random
import time

from benchmarks.privacy.costs import best_ms, issues, log
from benchmarks.privacy.records import records
from codemode_server.privacy.originals import Originals

COUNT = 10_000
GOAL_MS, BUILD_GOAL_MS, WORST_FACTOR = 100.0, 1000.0, 3
VALUES_ONLY = "known values only, 45,000 of them"
_SIZE = 1_000_000


def known_costs() -> tuple[float, dict[str, float]]:
    """Milliseconds for making the index, and for a search by what the text is."""
    values = _values()
    began = time.process_time()
    known = Originals()
    for number, value in enumerate(values):
        known.add(value, f"<VALUE_{number}>")
    built = 1000 * (time.process_time() - began)
    return built, {name: best_ms(known.spans, text) for name, text in _texts(values).items()}


def _values() -> list[str]:
    values: dict[str, None] = {}
    for record in records(COUNT, seed=17):
        values |= dict.fromkeys(value for _, value in record.truths)
        if len(values) >= COUNT:
            break
    return [*values][:COUNT]


def _texts(values: list[str]) -> dict[str, str]:
    chance = random.Random(3)
    return {
        "issues of a tracker": json.dumps(issues(_SIZE)),
        "lines of a log": log(_SIZE),
        "escapes only": r"\u0061" * (_SIZE // 6),
        "base64 of anything": base64.b64encode(chance.randbytes(_SIZE * 3 // 4)).decode(),
        "base64 of a log": base64.b64encode(log(_SIZE * 3 // 4).encode()).decode(),
        "digits only": "".join(chance.choices("0123456789", k=_SIZE)),
        "letters on one line": "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=_SIZE)),
        VALUES_ONLY: ("\n".join(values) * 10)[:_SIZE],
    }
