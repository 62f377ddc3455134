"""The records of a trial as Markdown: `python -m benchmarks.trial --report FILE`. Losses come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.report import table
from benchmarks.trial.figures import FIGURES, Comparison, Interval, Runs, best, by_task, compare
from benchmarks.trial.plan import hash_of
from benchmarks.trial.records import read


def report(path: Path) -> str:
    """
    Raises:
        ValueError: it has no plan.
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
        f"{plan['versions']['codemode-server']}. {made} of {wanted} runs; spent {spent:.2f}.\n",
    ]
    if made < wanted:
        lines.append("**Not complete: no conclusions.**\n")
    for title, is_tuning in (("Tasks that nothing was tuned on", False), ("Tasks for tuning", True)):
        part = {task: arms for task, arms in runs.items() if planned[task]["tuning"] is is_tuning}
        pairs = [pair for pair in combinations(plan["arms"], 2) if any({*pair} <= {*it} for it in part.values())]
        if pairs:
            compared = [(base, arm, compare(part, base, arm)) for base, arm in pairs]
            lines += [f"### {title}\n", _pairs_table(compared)]
    lines += ["### Each task\n", _tasks_table(runs, planned, plan["arms"])]
    return "\n".join(lines)


def _pairs_table(pairs: Sequence[tuple[str, str, Comparison]]) -> str:
    """Each later arm over each earlier one, with 95 % intervals."""
    heads = ("", "over", "tasks", "solved", "difference in points", "not inferior by ten", *FIGURES)
    rows = [
        (
            arm,
            base,
            str(found.tasks),
            f"{found.solved[1]:.0%} over {found.solved[0]:.0%}",
            _interval(found.difference, 100, "+.0f"),
            "shown" if found.is_not_inferior else "not shown",
            *(f"{_interval(found.ratios[name])} x" if name in found.ratios else "" for name in FIGURES),
        )
        for base, arm, found in pairs
    ]
    return table(heads, rows)


def _tasks_table(runs: Runs, planned: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Those first in which an arm without programs is among the best."""
    rows = []
    for name, found in runs.items():
        winners = best(found)
        cells = (_cell(found[arm]) if arm in found else "" for arm in arms)
        rows.append(
            (not {"direct", "deferred"} & {*winners}, name, planned[name]["expected"], ", ".join(winners), *cells)
        )
    return table(("task", "expected", "best", *arms), [row[1:] for row in sorted(rows)])


def _cell(runs: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(it['passed'] for it in runs)} of {len(runs)}, {mean(it['cost'] for it in runs):.4f}"


def _interval(found: Interval, times: float = 1, form: str = ".2f") -> str:
    value, low, high = (format(it * times, form) for it in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"
