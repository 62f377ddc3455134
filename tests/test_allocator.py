"""Memory of large messages goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

GROWTH = """
import sys
from codemode_server.support.allocator import return_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

if "set" in sys.argv:
    return_large_blocks()
before = resident()
for size in range(1, 31):
    block = b"x" * (size << 20)  # each one that is freed raises glibc's threshold
    del block
blocks, left = [], []
for _ in range(10):
    blocks.append(b"x" * (15 << 20))
    left.append(b"y" * 100_000)
del blocks
print(resident() - before)
"""


def growth(*arguments: str) -> int:
    """MiB that a process keeps of 150 MiB in large blocks once these are freed, with small blocks between them."""
    run = subprocess.run([sys.executable, "-c", GROWTH, *arguments], capture_output=True, text=True, check=True)
    return int(run.stdout)


def test_freed_blocks_are_kept_without_it() -> None:
    """The control: where this fails, the C library keeps nothing and the next test shows nothing."""
    if growth() < 64:
        pytest.skip("this C library gives large blocks back by itself")


def test_freed_blocks_are_given_back() -> None:
    assert growth("set") < 32
