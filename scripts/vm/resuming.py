"""A plugin for pytest: runs its part of the tests, and goes on where it was in another machine.

What QEMU emulates in software panics once in a while, in its own kernel, whatever runs in it, or stalls for minutes.
`scripts/vm/run` then boots another (CODEMODE_VM_TRIES), and what has passed is not run again. The notes of it belong to
one call of `scripts/vm/run` alone. Where machines share the work, each runs the tests of its CODEMODE_VM_PART.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.vm.emulated import ENDED

IS_EMULATED = os.environ.get("CODEMODE_VM") == "emulated"
MOST_STALLS = 2
"""After so many a test has failed by itself."""
STALL = re.compile(r"a microVM of '\S+' did not come up within \d+ seconds|selected msb runtime does not support \w")
"""In what a test fails with where only the emulated machine was too slow: to boot, or to answer what `msb` supports."""


def _notes(kind: str) -> Path | None:
    out, run = os.environ.get("CODEMODE_VM_OUT"), os.environ.get("CODEMODE_VM_RUN")
    return Path(out) / f"{kind}-{run}" if out and run else None


def _noted(kind: str) -> Counter[str]:
    notes = _notes(kind)
    return Counter(notes.read_text(encoding="utf-8").split("\0")[:-1] if notes and notes.exists() else ())


def _note(kind: str, test: str) -> None:
    if notes := _notes(kind):
        with notes.open("a", encoding="utf-8") as file:
            file.write(f"{test}\0")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number, of = map(int, os.environ.get("CODEMODE_VM_PART", "1/1").split("/"))
    passed = _noted("passed")
    left = [item for item in items[number - 1 :: of] if item.nodeid not in passed]
    if items and not left:
        pytest.exit("no test is left for this machine", returncode=0)
    if passed:
        print(f"\n{len(passed)} tests passed in the machine before; {len(left)} are left")
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown" and report.passed and report.nodeid in _called:
        _note("passed", report.nodeid)
    elif report.when == "call" and report.passed:
        _called.add(report.nodeid)


_called: set[str] = set()


def pytest_exception_interact(node: pytest.Item | pytest.Collector, report: pytest.TestReport) -> None:
    """Without the sandbox that they share, all tests that are left would fail like this one."""
    if IS_EMULATED and report.when == "setup" and STALL.search(report.longreprtext):
        node.session.shouldstop = "the emulated machine is too slow to set up a test"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where every failure is a stall of the emulated machine, it is the machine that failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    failures = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())] if reporter else []
    stalls = {it.nodeid for it in failures if STALL.search(it.longreprtext)}
    if IS_EMULATED and stalls:
        before = _noted("stalled")
        for test in stalls:
            _note("stalled", test)
        if stalls >= {it.nodeid for it in failures} and all(before[test] < MOST_STALLS for test in stalls):
            session.exitstatus = ENDED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if stalls := _noted("stalled"):
        terminalreporter.section("failures of the emulated machine", yellow=True)
        for test, count in stalls.items():
            terminalreporter.line(f"{count} × too slow to boot a microVM or to answer: {test}")
