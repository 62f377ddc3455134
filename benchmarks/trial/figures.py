"""What the records of a trial show. The task is the unit: runs of one task are averaged first, and the bootstrap draws
tasks, as other tasks are what a reader asks about, not other runs of these.

All runs count in tokens and money, those that failed as well: an arm that gives up early must not look cheap among the
solved ones only, nor one that needs long for what the other can't do at all. Only a task of which a run cost nothing,
as the endpoint refused its first request, is in no ratio.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.trial.plan import MARGIN

DRAWS, SEED = 10_000, 33
MIN_TASKS = 20
"""With fewer, nothing is claimed: where both arms solve all of a few tasks, a bootstrap finds no doubt at all."""
TIE = 1.1
"""Costs within a tenth of each other are a tie."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """An arm beside another one, over the same tasks."""

    tasks: int
    solved: tuple[float, float]
    """Share of the runs, mean over tasks: of the base, and of the arm."""
    difference: Interval
    """The arm's share of solved runs less the base's."""
    ratios: Mapping[str, Interval]
    """Geometric means over tasks of the arm's figure over the base's, by name; without those that have none."""

    @property
    def is_not_inferior(self) -> bool:
        """By ten points, never finer; False is no proof of the contrary."""
        return self.tasks >= MIN_TASKS and self.difference.low > -MARGIN


Runs = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""By task and arm, the records of runs."""


def by_task(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for record in records:
        if record["kind"] == "run":
            found.setdefault(record["task"], {}).setdefault(record["arm"], []).append(record)
    return found


def compare(runs: Runs, base: str, arm: str) -> Comparison:
    """Compare two arms over the tasks that both have runs of.

    Raises:
        ValueError: there is none.
    """
    pairs = [(each[base], each[arm]) for each in runs.values() if each.get(base) and each.get(arm)]
    if not pairs:
        raise ValueError(f"no task has runs of both {base} and {arm}")
    rates = [tuple(statistics.mean(float(it["passed"]) for it in side) for side in pair) for pair in pairs]
    return Comparison(
        len(pairs),
        (statistics.mean(it[0] for it in rates), statistics.mean(it[1] for it in rates)),
        bootstrap([after - before for before, after in rates]),
        {name: ratio for name, figure in FIGURES.items() if (ratio := _ratio(pairs, figure))},
    )


FIGURES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "tokens": lambda run: float(sum(run["usage"].values())),
    "cost": lambda run: float(run["cost"]),
    "time": lambda run: float(run["seconds"]),
    "turns": lambda run: float(run["turns"]),
}
"""What is compared of a run. Tokens are those of input and output, cached or not."""


def _ratio(
    pairs: Sequence[tuple[Sequence[Mapping[str, Any]], ...]], figure: Callable[[Mapping[str, Any]], float]
) -> Interval | None:
    sides = [[[figure(it) for it in side] for side in pair] for pair in pairs]
    logs = [log_ratio(base, arm) for base, arm in sides if min(*base, *arm) > 0]
    if not logs:
        return None
    found = bootstrap(logs)
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(found.high))


def log_ratio(base: Sequence[float], arm: Sequence[float]) -> float:
    """Logarithm of the ratio between the geometric means of the runs."""
    return statistics.mean(map(math.log, arm)) - statistics.mean(map(math.log, base))


def bootstrap(values: Sequence[float]) -> Interval:
    """The mean of one value per task; the interval is that of percentiles, always the same for the same values."""
    drawn = random.Random(SEED)
    means = sorted(statistics.fmean(drawn.choices(values, k=len(values))) for _ in range(DRAWS))
    return Interval(statistics.fmean(values), means[round(DRAWS * 0.025)], means[round(DRAWS * 0.975) - 1])


def best(arms: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The arms that solve one task most often, and of those the cheapest, with all that are about as cheap."""
    rates = {arm: statistics.mean(float(it["passed"]) for it in runs) for arm, runs in arms.items()}
    most = [arm for arm, rate in rates.items() if rate == max(rates.values())]
    costs = {arm: statistics.mean(float(it["cost"]) for it in arms[arm]) for arm in most}
    return [arm for arm in most if costs[arm] <= TIE * min(costs.values())]
