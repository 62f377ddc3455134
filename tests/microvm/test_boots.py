"""How often a boot that fails is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.config.settings import LimitSettings
from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend
from codemode_server.sandbox.backends.microvm.machine import BootFailed, Machine
from codemode_server.sandbox.registry import SandboxSettings


@pytest.mark.parametrize(("is_answer_lost", "tries"), [(False, 2), (True, 5)])
async def test_a_boot_is_tried_more_often_where_the_machine_was_too_busy_to_answer(
    monkeypatch: pytest.MonkeyPatch, msb_home: Path, is_answer_lost: bool, tries: int
) -> None:
    from microsandbox.errors import UnsupportedError

    made: list[str] = []

    async def boot(_settings: Any, _life_seconds: float, name: str, *_: Any) -> Machine:
        made.append(name)
        raise BootFailed("no microVM") from (UnsupportedError("no answer") if is_answer_lost else OSError())

    async def no_pause(_seconds: float) -> None: ...

    booting = MicrovmBackend(SandboxSettings(), LimitSettings(), None)
    booting._run.open()
    monkeypatch.setattr(Machine, "boot", boot)
    monkeypatch.setattr(anyio, "sleep", no_pause)
    with pytest.raises(BootFailed):
        await booting._boot(None)
    assert len(set(made)) == len(made) == tries
    booting._run.close(is_clean=True)
