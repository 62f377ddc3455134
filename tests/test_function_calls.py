"""What a program costs in function calls of the product, which no noise of the machine changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.function_calls import count

MOST = {"1 + 1": 640, "a program with one call": 1_340, "a program with two calls": 1_930}
"""A little above what is counted today, since a busy machine adds some; lower these when the count falls."""


@pytest.mark.asyncio
async def test_a_program_makes_no_more_function_calls_than_before(tmp_path: Path) -> None:
    """If this fails, `python -m benchmarks.function_calls` shows the functions that are called most."""
    counted = {name: counts.calls for name, counts in (await count(tmp_path)).items()}
    assert all(100 < calls < MOST[name] for name, calls in counted.items()), counted
