"""The soak: a short one finds the product well, and each of its bounds sees a planted leak.

The leaks are those of a process of its own that does one wrong thing when told to; `make soak` is the long one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.soak import BOUNDS, Found, Sample, Soak, SoakPlan, excess, left_behind, sample, table
from benchmarks.soak import began as began_at

pytestmark = pytest.mark.slow

LEAKING = Path(__file__).parent / "example_servers" / "leaking.py"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    temporary, state = tmp_path / "tmp", tmp_path / "state"
    for folder in (temporary, state / "kept", state / "workspaces", state / "logs"):
        folder.mkdir(parents=True)
    return temporary, state


@pytest.fixture
def leaking(folders: tuple[Path, Path]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(LEAKING), *map(str, folders)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    tell(process, "nothing")
    yield process
    process.communicate("end\n")


def tell(process: subprocess.Popen[str], what: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{what}\n"


def test_a_short_soak_finds_the_product_well(tmp_path: Path) -> None:
    found = Soak(tmp_path).run(SoakPlan(calls=200, programs=30, rounds=2))
    assert found.faults == []
    assert found.exceeded_bounds == []
    assert found.calls >= 200
    assert found.programs >= 30
    assert len(found.samples) == 2
    assert "OVER" not in table(found)


@pytest.mark.parametrize("figure", [bound.figure for bound in BOUNDS])
def test_a_planted_leak_is_seen(figure: str, leaking: subprocess.Popen[str], folders: tuple[Path, Path]) -> None:
    if figure in ("worker_memory", "helper_memory"):  # what is there already grows
        tell(leaking, figure.partition("_")[0] + "s")
    before = sample(leaking.pid, *folders)
    tell(leaking, figure)
    after = sample(leaking.pid, *folders)
    assert figure in [text.partition(":")[0] for text in excess(before, after, calls=100)]


def test_a_process_that_leaks_nothing_is_within_each_bound(
    leaking: subprocess.Popen[str], folders: tuple[Path, Path]
) -> None:
    """The control of the test above."""
    before = sample(leaking.pid, *folders)
    tell(leaking, "nothing")
    assert excess(before, sample(leaking.pid, *folders), calls=100) == []


def test_a_process_and_files_that_are_left_after_the_end_are_seen(
    leaking: subprocess.Popen[str], folders: tuple[Path, Path]
) -> None:
    temporary, state = folders
    (temporary / "left").write_text("x")
    (state / "kept" / "left").write_text("x")
    found = left_behind({leaking.pid: began_at(leaking.pid)}, temporary, state, patience_s=0)
    assert found == [
        f"process {leaking.pid} is left",
        f"{temporary / 'left'} is left",
        f"{state / 'kept' / 'left'} is left",
    ]


def test_what_has_ended_is_not_left(folders: tuple[Path, Path]) -> None:
    """The control of the test above; another process may have the number by now."""
    assert left_behind({1: "0", 2**22 + 1: "5"}, *folders, patience_s=0) == []


def test_a_wrong_answer_fails_the_soak() -> None:
    samples = [Sample(), Sample()]
    assert Found(samples=samples).is_well
    assert not Found(samples=samples, faults=["a timeout: 2"]).is_well
    assert not Found(samples=[Sample(), Sample(zombies=1)]).is_well
    assert not Found().is_well
