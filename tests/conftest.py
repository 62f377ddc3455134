"""After the tests: how many were skipped, and why."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason; with `-ra` alone, a reason is told once for each place that gives it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report) for report in skipped)
    if reasons:
        terminalreporter.section(f"skipped: {len(skipped)}")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report: pytest.TestReport) -> str:
    longrepr = report.longrepr
    return longrepr[2].removeprefix("Skipped: ") if isinstance(longrepr, tuple) else str(longrepr)
