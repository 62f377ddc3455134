"""A plugin for pytest: goes on where it was when an emulated machine died under it.

What QEMU emulates in software panics once in a while, in its own kernel, whatever runs in it. `scripts/vm/run` then
boots another (CODEMODE_VM_TRIES), and what has passed in the one that died is not run again. The note of it belongs to
one call of `scripts/vm/run` alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _notes() -> Path | None:
    out, run = os.environ.get("CODEMODE_VM_OUT"), os.environ.get("CODEMODE_VM_RUN")
    return Path(out) / f"passed-{run}" if out and run else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    notes = _notes()
    if notes is None or not notes.exists():
        return
    passed = set(notes.read_text(encoding="utf-8").split("\0"))
    left = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    print(f"\n{len(items) - len(left)} tests passed in the machine that died; {len(left)} are left")
    items[:] = left


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    notes = _notes()
    if notes is not None and report.when == "teardown" and report.passed and report.nodeid in _called:
        with notes.open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\0")
    elif report.when == "call" and report.passed:
        _called.add(report.nodeid)


_called: set[str] = set()
