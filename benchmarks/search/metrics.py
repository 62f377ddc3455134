"""How good a ranking is: nDCG@10, and whether the first result is right; with intervals over the queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DEPTH = 10
_SEED = 20_26
SAMPLES = 2_000

Values = NDArray[np.float64]
"""One figure for each query."""


def ndcg(found: Sequence[str], relevant: frozenset[str], depth: int = DEPTH) -> float:
    """Of the first ten, with each relevant tool worth the same."""
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(found[:depth]) if one in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(depth, len(relevant))))


def top1(found: Sequence[str], relevant: frozenset[str]) -> float:
    """Whether the first is right."""
    return float(bool(found) and found[0] in relevant)


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over queries, and where 95 % of the means of other draws of as many queries lie."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def signed(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves out zero; of a difference."""
        return self.low > 0 or self.high < 0


def figure(values: Values) -> Figure:
    """The mean of these, with a bootstrap interval over queries; the draws are the same every time."""
    return mean_figure([values])


def mean_figure(groups: Iterable[Values]) -> Figure:
    """The mean of the means of several sets: each is drawn again by itself."""
    generator = np.random.default_rng(_SEED)
    sets = list(groups)
    drawn = [values[generator.integers(0, len(values), (SAMPLES, len(values)))].mean(axis=1) for values in sets]
    low, high = np.percentile(np.mean(drawn, axis=0), [2.5, 97.5])
    return Figure(float(np.mean([values.mean() for values in sets])), float(low), float(high))
