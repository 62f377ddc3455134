"""The lab of `make vmtest` never takes half a part for whole, and never passes where nothing was run.

That it boots microVMs is what the tests show that run in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.vm import lab


def test_where_no_machine_can_be_had_nothing_is_run_and_that_is_said_loudly(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CODEMODE_VM", raising=False)
    monkeypatch.setenv("CODEMODE_VM_EMULATE", "1")
    monkeypatch.setenv("CODEMODE_VM_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert lab.main(["run", "--", "touch", str(tmp_path / "ran")]) == 75
    told = capfd.readouterr().err
    assert "!! NO MACHINE FOR MICROVMS COULD BE HAD; NOTHING WAS RUN." in told
    assert "\n!! Run" in told
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("body", "status"), [("pass", 0), ("__import__('pytest').skip('why')", 1)])
def test_a_test_that_is_skipped_there_has_failed(tmp_path: Path, body: str, status: int) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "scripts.vm.no_skips",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
