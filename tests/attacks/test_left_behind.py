"""Threat: products that are killed fill the disk with folders that nobody removes.

Rule: the next product removes the temporary folders of those that are dead, and of no other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.behaviour.product import configuration

pytestmark = pytest.mark.slow

BUSY = "open('/tmp/mine', 'w').write('x')\nopen('/workspace/begun', 'w').close()\nwhile True: pass"
OPENING = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder that products take for the machine's temporary one."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def folders(place: Path) -> set[Path]:
    return set(place.glob("codemode-*"))


def programs(place: Path) -> list[Path]:
    """What the programs that run now have written to /tmp."""
    return list(place.glob("codemode-*/tmp-*/mine"))


@contextmanager
def product(folder: Path, place: Path, *, code: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A real product in a state folder of its own, that runs a program if one is given; killed in the end."""
    folder.mkdir()
    path = configuration(folder, {}, limits={"wall_seconds": 300})
    process = subprocess.Popen(
        [sys.executable, "-m", "codemode_server", "--config", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(place)},
    )
    assert process.stdin is not None
    messages: list[dict[str, Any]] = list(OPENING)
    if code is not None:
        messages.append(
            {"id": 2, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"code": code}}}
        )
    process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **it}).encode() + b"\n" for it in messages))
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


async def until(is_true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_true():
            await anyio.sleep(0.05)


async def leave_folder(folder: Path, place: Path) -> Path:
    """What a product leaves that is killed while it runs a program."""
    before = folders(place)
    with product(folder, place, code=BUSY):
        await until((folder / "state" / "workspaces" / "default" / "begun").exists)
    (left,) = folders(place) - before
    assert list(left.glob("tmp-*/mine")), "control: it left something"
    return left


async def test_what_a_killed_product_left_is_removed_by_the_next_one_and_what_a_living_one_has_is_not(
    tmp_path: Path, place: Path
) -> None:
    (place / "somebody-elses").mkdir()
    (place / "codemode-notes").mkdir()
    with product(tmp_path / "living", place, code=BUSY):
        await until(lambda: len(programs(place)) == 1)
        (living,) = programs(place)
        left = [await leave_folder(tmp_path / name, place) for name in ("one", "two")]
        assert left[1].exists()
        with product(tmp_path / "next", place):
            await until(lambda: not any(folder.exists() for folder in left))
        assert living.exists()
    assert all((place / name).exists() for name in ("somebody-elses", "codemode-notes"))


async def test_a_product_that_ends_by_itself_leaves_nothing(tmp_path: Path, place: Path) -> None:
    with product(tmp_path / "one", place, code=BUSY) as process:
        await until(lambda: len(programs(place)) == 1)
        assert process.stdin is not None
        process.stdin.close()
        await until(lambda: process.poll() is not None)
    assert folders(place) == set()
