"""Nothing of ours outlives us, in whatever way we end. A child process stands for us; its upstream ignores EOF and
SIGTERM, and has a child that does so too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codemode_server.processes.orphan_reaper import Reaper
from tests.processes import is_gone
from tests.upstreams.kit import Kit

pytestmark = pytest.mark.slow

PRODUCT = Path(__file__).with_name("reaper_child.py")
ROOT = PRODUCT.parents[2]


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "SIGKILL, its group", "close"])
async def test_nothing_outlives_the_product(kit: Kit, tmp_path: Path, end: str) -> None:
    """Hosts end a server with SIGTERM and SIGKILL, 2 s after its stdin."""
    file = tmp_path / "pids"
    arguments = [sys.executable, str(PRODUCT), str(file), *(["close"] if end == "close" else [])]
    product = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )  # fmt: skip
    try:
        assert product.stdout is not None
        pids = [int(product.stdout.readline()), *map(int, file.read_text().split())]
        assert len(pids) == 3
        if end != "close":
            assert not any(is_gone(pid) for pid in pids)
            if end == "SIGKILL, its group":
                os.killpg(product.pid, signal.SIGKILL)
            else:
                product.send_signal(getattr(signal, end))
        await kit.until(lambda: all(is_gone(pid) for pid in pids))
    finally:
        product.kill()
        product.wait()
        if product.stdout is not None:
            product.stdout.close()


async def test_a_reaper_that_was_killed_is_replaced_and_knows_all_groups(kit: Kit) -> None:
    reaper = Reaper()
    sleepers = [subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True) for _ in range(2)]
    try:
        reaper.watch(sleepers[0].pid)
        first = reaper.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await kit.until(lambda: is_gone(first))
        reaper.watch(sleepers[1].pid)
        assert reaper.pid not in (None, first)
    finally:
        await reaper.aclose()  # both are still watched: as if we had died
    assert [sleeper.wait(60) for sleeper in sleepers] == [-signal.SIGTERM, -signal.SIGTERM]


SLEEP = "import time; time.sleep(600)"
