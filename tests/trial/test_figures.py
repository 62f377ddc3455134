"""The figures of a trial, with known answers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trial import plan
from benchmarks.trial.figures import Comparison, Interval, best, bootstrap, by_task, compare, log_ratio
from benchmarks.trial.records import Records
from benchmarks.trial.report import report
from tests.trial.shop_tasks import tasks


def run(task: str, arm: str, *, passed: bool = True, cost: float = 1.0, turns: int = 2) -> dict[str, Any]:
    usage = {"input": 100 * cost, "read": 0, "written": 0, "output": 0}
    figures = {"passed": passed, "cost": cost, "turns": turns, "seconds": cost, "usage": usage}
    return {"kind": "run", "task": task, "arm": arm, **figures}


def trial(count: int, each: Callable[[int], Sequence[dict[str, Any]]]) -> Any:
    return by_task(record for number in range(count) for record in each(number))


def test_a_task_with_many_runs_counts_no_more_than_one_with_few() -> None:
    runs = by_task(
        [
            *(run("often", "direct") for _ in range(9)),
            *(run("often", "code", passed=False) for _ in range(9)),
            run("once", "direct"),
            run("once", "code"),
        ]
    )
    found = compare(runs, "direct", "code")
    assert (found.tasks, found.solved, found.difference.value) == (2, (1.0, 0.5), -0.5)


def test_ratios_are_geometric_over_runs_and_over_tasks() -> None:
    """A quarter and four times even out; a mean of ratios would say 2.1."""
    assert log_ratio([1, 4], [1, 1]) == pytest.approx(-math.log(2))
    runs = by_task(
        [run("a", "direct", cost=4), run("a", "code", cost=1), run("b", "direct", cost=1), run("b", "code", cost=4)]
    )
    found = compare(runs, "direct", "code").ratios
    assert found["cost"].value == found["tokens"].value == pytest.approx(1)
    assert (found["cost"].low, found["cost"].high) == pytest.approx((0.25, 4))


def test_the_interval_is_that_of_the_mean_over_tasks() -> None:
    """Against the interval of the normal distribution, which such values have: 1.96 standard errors on each side."""
    drawn = random.Random(5)
    values = [drawn.gauss(0, 1) for _ in range(400)]
    found = bootstrap(values)
    assert found.value == pytest.approx(sum(values) / 400)
    assert found.high - found.low == pytest.approx(2 * 1.96 / 20, rel=0.1)
    assert found == bootstrap(values)


@pytest.mark.parametrize(
    ("tasks_lost", "claimed"), [(0, True), (1, True), (8, False)], ids=["none", "one of 40", "eight of 40"]
)
def test_non_inferiority_is_claimed_where_the_whole_interval_is_within_ten_points(
    tasks_lost: int, claimed: bool
) -> None:
    runs = trial(40, lambda n: [run(f"t{n}", "direct"), run(f"t{n}", "code", passed=n >= tasks_lost)])
    assert compare(runs, "direct", "code").is_not_inferior is claimed


def test_few_tasks_claim_nothing_even_where_both_arms_solve_all() -> None:
    runs = trial(19, lambda n: [run(f"t{n}", "direct"), run(f"t{n}", "code")])
    found = compare(runs, "direct", "code")
    assert (found.difference, found.is_not_inferior) == (Interval(0, 0, 0), False)
    assert replace(found, tasks=20).is_not_inferior


def test_failed_runs_count_in_the_cost_and_refused_ones_in_no_ratio() -> None:
    runs = by_task(
        [
            run("a", "direct", cost=1),
            run("a", "code", cost=3, passed=False),
            run("b", "direct", cost=0, passed=False, turns=0),
            run("b", "code", cost=9),
        ]
    )
    found: Comparison = compare(runs, "direct", "code")
    assert found.ratios["cost"].value == pytest.approx(3)
    assert found.difference.value == 0


@pytest.mark.parametrize(
    ("direct", "code", "expected"),
    [
        ({"passed": False}, {"cost": 50.0}, ["code"]),
        ({"cost": 1.0}, {"cost": 1.05}, ["direct", "code"]),
        ({"cost": 1.0}, {"cost": 1.2}, ["direct"]),
        ({"cost": 1.0}, {"cost": 0.8}, ["code"]),
    ],
    ids=["solved more often", "a tenth", "dearer", "cheaper"],
)
def test_the_best_arms_of_a_task(direct: dict[str, Any], code: dict[str, Any], expected: list[str]) -> None:
    runs = {"direct": [run("t", "direct", **direct)], "code": [run("t", "code", **code)]}
    assert best(runs) == expected


def test_half_of_each_suite_is_for_tuning_and_the_order_is_that_of_the_seed() -> None:
    many = [replace(task, name=f"{task.name}{n}", suite=suite) for n in range(6) for suite in "xy" for task in tasks()]
    many = [replace(task, name=f"{task.suite}-{task.name}") for task in many]
    tuned = plan.tuning(many)
    assert tuned == plan.tuning(reversed(many))
    assert [sum(name.startswith(suite) for name in tuned) for suite in "xy"] == [6, 6]
    cells = plan.cells(many, ["direct", "code"], 3, seed=1)
    assert cells == plan.cells(many, ["direct", "code"], 3, seed=1) != plan.cells(many, ["direct", "code"], 3, seed=2)
    assert len({cell.key for cell in cells}) == len(cells) == 24 * 2 * 3
    assert all(one.task == other.task for one, other in zip(cells[::2], cells[1::2], strict=True))
    assert len({cell.arm for cell in cells[::2]}) == 2


def test_the_report_has_the_halves_apart_and_losses_first(tmp_path: Path) -> None:
    out = tmp_path / "trial.jsonl"
    fixed = plan.plan(tasks(), ["direct", "code"], 1, 1, {"model": "m", "base_url": "u"})
    records = Records(out, fixed)
    costs = {"order": (2.0, 1.0), "price": (1.0, 2.0)}
    for task, pair in costs.items():
        for arm, cost in zip(("direct", "code"), pair, strict=True):
            record = run(task, arm, cost=cost)
            records.add(record.pop("kind"), cell=f"{task}/{arm}/0", **record)
    records.close()
    text = report(out)
    assert "4 of 4 runs" in text
    assert "Not complete" not in text
    assert text.index("nothing was tuned on") < text.index("Tasks for tuning")
    assert text.count("| code | direct | 1 | 100% over 100% | +0 (+0 to +0) | not shown |") == 2
    assert text.index("| price | direct | direct |") < text.index("| order | tie | code |")
    half = out.read_text().splitlines()[:3]
    out.write_text("\n".join(half) + "\n")
    assert "Not complete" in report(out)
    assert json.loads(half[0])["plan"] in text
