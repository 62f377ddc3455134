"""When an emulated machine dies under the tests, the next one goes on where it was, and takes nothing for passed that
has not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import os
def test_first(): pass
def test_that_kills_the_machine():
    if os.environ["DIES"] == "1":
        os._exit(70)
def test_that_fails():
    assert os.environ["DIES"] == "1"
"""


def run(folder: Path, *, dies: bool, run: str = "r1") -> str:
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "scripts.vm.resuming", "-p", "no:cacheprovider"]
    told = subprocess.run(
        [*command, "-c", "/dev/null", f"--rootdir={folder}", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"CODEMODE_VM_OUT": str(folder), "CODEMODE_VM_RUN": run, "DIES": str(int(dies)), "PYTHONPATH": str(ROOT)},
    )
    return told.stdout


def test_the_next_machine_runs_what_has_not_passed(tmp_path: Path) -> None:
    run(tmp_path, dies=True)
    told = run(tmp_path, dies=False)
    assert "1 tests passed in the machine that died; 2 are left" in told
    assert "test_that_kills_the_machine PASSED" in told
    assert "test_that_fails FAILED" in told
    assert "test_first" not in told.split("collected")[1]


def test_another_run_knows_nothing_of_it(tmp_path: Path) -> None:
    run(tmp_path, dies=True)
    assert "test_first PASSED" in run(tmp_path, dies=False, run="r2")
