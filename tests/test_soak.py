"""The soak: a short run finds the product within its bounds, and a figure beyond its bound is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import BOUNDS, Soak, excesses


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_short_soak_finds_the_product_within_its_bounds(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    soak.run(programs=90, rounds=2)
    assert soak.faults == []
    assert soak.excesses == []
    assert soak.programs >= 90


@pytest.mark.parametrize("figure", BOUNDS)
def test_a_figure_beyond_its_bound_is_reported(figure: str) -> None:
    first = dict.fromkeys(BOUNDS, 10.0)
    assert excesses(first, first) == []
    assert [text.partition(":")[0] for text in excesses(first, {**first, figure: 1_000.0})] == [figure]
