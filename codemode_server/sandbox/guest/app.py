"""The entry of the WebAssembly component: what is done on import is in the image that every program starts from."""

from __future__ import annotations

import asyncio
import gc
import sys

import wit_world  # made by componentize-py from world.wit

from . import library

library.take_in()
library.take_in_zones()

from . import modules, repetition, runner, warm_up, wasi  # noqa: E402 - they replace parts of what was taken in
from .calls import Calls  # noqa: E402
from .link import Link  # noqa: E402

_ADVICE = "not available in the wasm sandbox; use the standard library"
_RECURSION = 1_000
_WARM_UPS = 20
"""Times that CPython has to run code before it has specialized it."""


class _Host:
    """The transport: two functions that the worker offers."""

    def send(self, text: str) -> None:
        wit_world.send(text)

    def receive(self, timeout_s: float | None) -> str | None:
        return wit_world.receive(-1 if timeout_s is None else max(0, round(timeout_s * 1_000_000)))


_link = Link(_Host())
_scheduler = wasi.Scheduler(_link)
_link.wait = _scheduler.wait
_calls = Calls(_link)
_host_modules = modules.install(_link, _calls, advice=_ADVICE)
_run_async = wasi.install(_scheduler)
repetition.install()


class WitWorld(wit_world.WitWorld):
    def run(self) -> None:
        """Run the one program that this instance is for."""
        sys.setrecursionlimit(_RECURSION)
        frame = _link.open(0)
        if frame is None:
            warm_up.warm_up(_run_async)
            frame = _link.open()
        _host_modules.add(frame["modules"])
        runner.run(_link, _calls, frame, _run_async)


for _ in range(_WARM_UPS):
    warm_up.warm_up(_run_async)
sys.argv = [""]
sys.path[:] = []
asyncio.events._set_running_loop(None)
gc.collect()
gc.freeze()
