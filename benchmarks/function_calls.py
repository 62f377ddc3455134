"""Counts the product's own function calls, and the wake-ups of its event loop, of one program: exact on any machine.

python -m benchmarks.function_calls      also prints the functions that are called most
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import anyio
from mcp import Client

import codemode_server
from benchmarks.product import configuration, stdio_upstream
from codemode_server.app import App
from codemode_server.config import load

ECHO = "from servers.bench import echo\necho(number=1)"
PROGRAMS = {"1 + 1": "1 + 1", "a program with one call": ECHO, "a program with two calls": f"{ECHO}\necho(number=2)"}
_PRODUCT = str(Path(codemode_server.__file__).parent)
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]
_WARM_UP, _RUNS = 5, 8
_SETTLE_SECONDS = 0.2
"""For what happens after the answer."""


@dataclass(frozen=True)
class Counts:
    """The fewest of several runs; the client in the same loop adds wake-ups but no calls."""

    functions: Counter[CodeType]
    wake_ups: int

    @property
    def calls(self) -> int:
        return self.functions.total()


class _Profile:
    """Notes each call that begins, in the loop's thread while `is_on` and in all threads that began after it."""

    def __init__(self) -> None:
        self.codes: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (frame.f_code is _RUN_ONCE or frame.f_code.co_filename.startswith(_PRODUCT)):
            self.codes.append(frame.f_code)

    def counts(self) -> Counts:
        functions = Counter(self.codes)
        return Counts(functions, functions.pop(_RUN_ONCE, 0))


async def count(folder: Path) -> dict[str, Counts]:
    """The counts of each of `PROGRAMS`, by its name, in a product of its own in this process."""
    config = configuration(folder, {"bench": stdio_upstream()})
    profile = _Profile()
    threading.setprofile(profile)
    try:
        async with App.open(load(config)) as app, Client(app.front) as client:
            await client.call_tool("list_dir", {"path": "/servers/bench"}, read_timeout_seconds=120)
            return {name: await _count(client, profile, code) for name, code in PROGRAMS.items()}
    finally:
        threading.setprofile(None)


async def _count(client: Client, profile: _Profile, code: str) -> Counts:
    found = []
    for number in range(_WARM_UP + _RUNS):
        profile.codes.clear()
        sys.setprofile(profile)
        try:
            answer = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=120)
        finally:
            sys.setprofile(None)
        assert not answer.is_error, answer.content
        await anyio.sleep(_SETTLE_SECONDS)
        if number >= _WARM_UP:
            found.append(profile.counts())
    fewest = min(found, key=lambda counts: counts.calls)
    return Counts(fewest.functions, min(counts.wake_ups for counts in found))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counted = anyio.run(count, Path(folder))
    for name, counts in counted.items():
        files = {code.co_filename for code in counts.functions}
        print(f"{name}: {counts.calls:,} calls in {len(files)} files, {counts.wake_ups} wake-ups")
        for code, number in counts.functions.most_common(40):
            print(f"{number:7} {Path(code.co_filename).relative_to(_PRODUCT)} {code.co_name}")


if __name__ == "__main__":
    main()
