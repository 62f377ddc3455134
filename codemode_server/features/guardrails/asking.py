"""Asks one guardrail one question, within its time; whatever goes wrong is a `Block`.

A guardrail runs in this process. If it needs threads, each question has one, which nothing can end: when the time is
up, the thread is left behind, and it takes one of the guardrail's places until it ends. So a guardrail that hangs
blocks everything that it looks at, and nothing else.

One with `needs_thread = False` runs on the event loop, where nothing can interrupt it: while it runs, nothing else
does. Its time is measured, and an answer that came too late is a `Block` as well.
"""

from __future__ import annotations

import logging
import threading
import time
from asyncio import get_running_loop
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from codemode_server.features.guardrails.guardrail import Ask, Block, CallVerdict, Change, Guardrail, Pass
from codemode_server.support.off_loop import is_large, run_sized

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 16
"""Threads of one guardrail; more questions wait, within their time."""


class AskedGuardrail:
    def __init__(self, name: str, guardrail: Guardrail, timeout_s: float, globs: tuple[str, ...] = ()) -> None:
        self.name = name
        self.guardrail = guardrail
        self.timeout_s = timeout_s
        self.globs = globs
        self._places = anyio.Semaphore(MAX_AT_ONCE)

    def looks_at(self, method: str) -> bool:
        """True if it overrides a method of `Guardrail`."""
        return getattr(type(self.guardrail), method) is not getattr(Guardrail, method)

    async def verdict(self, method: str, value: Any, *args: Any) -> CallVerdict:
        """Its answer; `value` is what `args` are mainly about, and decides whether a thread is used."""
        function = getattr(self.guardrail, method)
        try:
            if not self.guardrail.needs_thread:
                found = await run_sized(is_large(value), self._in_time, function, *args)
            else:
                with anyio.fail_after(self.timeout_s):
                    found = await self._in_thread(function, *args)
        except TimeoutError:
            advice = "" if self.guardrail.needs_thread else "; everything else waited, so it needs needs_thread = True"
            problem = f"no answer within {self.timeout_s:g} s"
            logger.exception("guardrail %r gave %s, so it blocks%s", self.name, problem, advice)
            return Block(f"it gave {problem}; the user can look at what it does")
        except Exception:
            logger.exception("guardrail %r failed, so it blocks", self.name)
            return Block("it failed; the log of codemode-server has the details")
        if isinstance(found, Pass | Change | Ask | Block):
            return found
        logger.error("guardrail %r returned %s, which is no verdict, so it blocks", self.name, type(found).__name__)
        return Block(f"it returned {type(found).__name__}, which is no verdict")

    def _in_time(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call it without a thread of its own. An answer after its time raises `TimeoutError`."""
        began = time.perf_counter()
        found = function(*args)
        if time.perf_counter() - began > self.timeout_s:
            raise TimeoutError
        return found

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call it in a thread that does not keep the process alive."""
        await self._places.acquire()
        loop, has_ended = get_running_loop(), anyio.Event()
        answers: list[Any] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                answers.append(function(*args))
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                errors.append(error)
            except BaseException as error:  # noqa: BLE001 - `SystemExit` would leave the caller waiting
                errors.append(RuntimeError(f"{type(error).__name__} was raised"))
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(end)

        def end() -> None:
            self._places.release()
            has_ended.set()

        threading.Thread(target=run, name=self.name, daemon=True).start()
        await has_ended.wait()
        if errors:
            raise errors[0]
        return answers[0]
