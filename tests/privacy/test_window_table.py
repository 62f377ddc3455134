"""The table of windows while it grows."""

from __future__ import annotations

import numpy as np
import pytest

from codemode_server.privacy.window_table import Keys, WindowTable


def test_what_is_known_is_found_in_each_moment_of_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may ask while the table is made larger; here the table asks itself before it fills the new one."""
    table, answers = WindowTable(), list[bool]()
    windows = [number.to_bytes(8, "big") for number in range(1, 40_000)]
    table.add(windows[:1])
    known: Keys = np.array([1], np.uint64)
    slots = WindowTable._slots

    def asking(self: WindowTable, keys: Keys, shift: int) -> object:
        if keys is not known:
            answers.append(bool(self.has(known)[0]))
        return slots(self, keys, shift)

    monkeypatch.setattr(WindowTable, "_slots", asking)
    for start in range(1, len(windows), 1_000):
        table.add(windows[start : start + 1_000])
    assert answers, "it has grown"
    assert all(answers)
