"""A plugin for pytest: where microVMs boot, a test that is skipped is one that failed, for it is run nowhere else."""

from __future__ import annotations

import pytest


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", ())) if reporter else 0


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := _skipped(config):
        terminalreporter.section("skipped where nothing may be", red=True)
        terminalreporter.line(f"{count} tests were skipped in a machine that boots microVMs: this counts as a failure.")
