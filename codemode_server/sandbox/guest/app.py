"""The entry of the WebAssembly component: what is imported here is in the image that every program starts from."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys

import wit_world  # made by componentize-py from world.wit

from . import library, zones

library.take_in()
zones.take_in()

from . import modules, runner, wasi  # noqa: E402 - they replace parts of what was taken in
from .calls import Calls  # noqa: E402
from .link import Link  # noqa: E402
from .scheduler import Scheduler  # noqa: E402

_ADVICE = "not available in the wasm sandbox; use the standard library"
_RECURSION = 1_000


class _Host:
    """The transport: two functions that the worker offers."""

    def send(self, text: str) -> None:
        wit_world.send(text)

    def receive(self, timeout_s: float | None) -> str | None:
        return wit_world.receive(-1 if timeout_s is None else max(0, round(timeout_s * 1_000_000)))


class WitWorld(wit_world.WitWorld):
    def run(self) -> None:
        """Run the one program that this instance is for."""
        link = Link(_Host())
        frame = link.open()
        random.seed(os.urandom(32))  # the image holds the state of the day it was built
        sys.setrecursionlimit(_RECURSION)
        scheduler = Scheduler(link)
        link.wait = scheduler.wait
        calls = Calls(link)
        modules.install(link, calls, advice=_ADVICE)
        run_async = wasi.install(scheduler)
        runner.run(link, calls, frame, run_async)


sys.argv = [""]
sys.path[:] = []
asyncio.events._set_running_loop(None)
gc.collect()
gc.freeze()
