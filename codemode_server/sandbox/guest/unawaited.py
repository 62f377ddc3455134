"""Coroutines of a program that were made and never awaited, so nothing of them has run."""

from __future__ import annotations

import gc
import inspect
import types
import warnings
from collections import Counter

from .modules import PROGRAM_FILES

_MAX_NAMED = 3


class Unawaited:
    """Counts them by name and line; Python itself only warns of those that were freed."""

    def __init__(self) -> None:
        self._freed: Counter[tuple[str, int]] = Counter()

    def watch(self) -> None:
        warnings._warn_unawaited_coroutine = self._note  # type: ignore[attr-defined]  # Python calls it by this name

    def _note(self, coroutine: types.CoroutineType[object, object, object]) -> None:
        code = coroutine.cr_code
        if code.co_filename in PROGRAM_FILES:
            self._freed[code.co_name, code.co_firstlineno] += 1

    def hint(self) -> str:
        """What the model has to know of them; empty if there are none."""
        found = self._freed.copy()
        for it in gc.get_objects():
            if type(it) is not types.CoroutineType or it.cr_code.co_filename not in PROGRAM_FILES:
                continue
            if inspect.getcoroutinestate(it) == inspect.CORO_CREATED:
                found[it.cr_code.co_name, it.cr_code.co_firstlineno] += 1
        if not found:
            return ""
        named = [f"{count} of {name} (line {line})" for (name, line), count in found.most_common(_MAX_NAMED)]
        return (
            f"coroutines were never awaited, so nothing of them has run: {', '.join(named)}; write await before the "
            "call, or await asyncio.gather(*coroutines)"
        )
