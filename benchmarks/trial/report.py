"""The records of a trial as Markdown: `python -m benchmarks.trial --report FILE`. Losses come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.trial.figures import Comparison, Interval, Runs, by_task, compare, of_tasks, winner
from benchmarks.trial.plan import hash_of
from benchmarks.trial.records import read


def report(path: Path) -> str:
    """
    Raises:
        ValueError: it has no plan, or no runs of two arms.
    """
    records = list(read(path))
    plan = next((it["frozen"] for it in records if it["kind"] == "plan"), None)
    if plan is None:
        raise ValueError(f"{path} has no plan")
    runs, planned = by_task(records), plan["tasks"]
    wanted = len(planned) * len(plan["arms"]) * plan["runs"]
    made = sum(len(each) for arms in runs.values() for each in arms.values())
    spent = sum(it["cost"] for it in records if it["kind"] == "request")
    lines = [
        f"Plan `{hash_of(plan)}`: {plan['endpoint']['model']} at {plan['endpoint']['base_url']}, codemode-server "
        f"{plan['versions']['codemode-server']}. {made} of {wanted} runs; spent {spent:.2f}.",
    ]
    if made < wanted:
        lines.append("**Not complete: no conclusions.**")
    base, *others = plan["arms"]
    for arm in others:
        for title, is_tuning in (("tasks that nothing was tuned on", False), ("tasks for tuning", True)):
            part = of_tasks(runs, lambda name, tuned=is_tuning: planned[name]["tuning"] is tuned)  # type: ignore[misc]
            if any(each.get(base) and each.get(arm) for each in part.values()):
                lines += ["", f"### {arm} over {base}: {title}", "", _shown(compare(part, base, arm), base, arm)]
        lines += ["", f"### {arm} over {base}: each task", "", _tasks_table(runs, planned, base, arm)]
    return "\n".join(lines)


def _shown(found: Comparison, base: str, arm: str) -> str:
    verdict = "not inferior by ten points" if found.is_not_inferior else "non-inferiority by ten points is not shown"
    rows = (
        ("tasks", str(found.tasks)),
        (f"solved: {base}, {arm}", f"{found.solved[0]:.0%}, {found.solved[1]:.0%}"),
        ("difference", f"{_interval(found.difference, 100, '+.0f')} points: {verdict}"),
        *((name, f"{_interval(ratio)} x") for name, ratio in found.ratios.items()),
    )
    return _table(("", "with its 95 % interval"), rows)


def _tasks_table(runs: Runs, planned: Mapping[str, Any], base: str, arm: str) -> str:
    order = {"direct": 0, "tie": 1, "code": 2}
    rows = []
    for name, arms in runs.items():
        if not (arms.get(base) and arms.get(arm)):
            continue
        found = winner(arms, base, arm)
        solved = (f"{sum(it['passed'] for it in arms[side])} of {len(arms[side])}" for side in (base, arm))
        costs = (f"{mean(it['cost'] for it in arms[side]):.4f}" for side in (base, arm))
        rows.append((order[found], name, (name, planned[name]["expected"], found, *solved, *costs)))
    heads = ("task", "expected", "found", f"solved: {base}", arm, f"cost: {base}", arm)
    return _table(heads, [row for _, _, row in sorted(rows)])


def _interval(found: Interval, times: float = 1, form: str = ".2f") -> str:
    value, low, high = (format(it * times, form) for it in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))
