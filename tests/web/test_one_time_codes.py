"""The codes that admit a browser: one use each, for a while, and only from those who have the key."""

from __future__ import annotations

import pytest

from codemode_server.web.admission import KEY_BYTES, OneTimeCodes, new_code

KEY = b"k" * KEY_BYTES
NOW = 1_800_000_000.0


def codes(now: float = NOW) -> OneTimeCodes:
    return OneTimeCodes(KEY, max_age_s=600, clock=lambda: now)


def test_a_code_of_another_process_with_the_key_works_once() -> None:
    known, code = codes(), new_code(KEY, NOW)
    assert known.is_open(code)
    assert known.is_open(code), "a look does not use it"
    assert known.use(code)
    assert not known.use(code)
    assert not known.is_open(code)
    assert known.use(new_code(KEY, NOW)), "control: a fresh one"


@pytest.mark.page_attack
@pytest.mark.parametrize(("age", "is_good"), [(0, True), (599, True), (601, False), (-4, True), (-60, False)])
def test_a_code_is_good_for_a_while(age: float, is_good: bool) -> None:
    assert codes(NOW).use(new_code(KEY, NOW - age)) is is_good


@pytest.mark.page_attack
def test_nobody_without_the_key_makes_or_changes_a_code() -> None:
    code = new_code(KEY, NOW - 10_000)
    moment, nonce, mark = code.split("_", 1)[0], code.split("_", 1)[1].rpartition("_")[0], code.rpartition("_")[2]
    forged = [
        *("", "_", "__", "é", mark, f"{moment}_{nonce}", f"{moment}_{nonce}_", f"{moment}_{nonce}_{'0' * 64}"),
        f"{NOW}_{nonce}_{mark}",
        f"{moment}_{nonce}x_{mark}",
        new_code(b"x" * KEY_BYTES, NOW),
        f"{new_code(KEY, NOW)}x",
        new_code(KEY, NOW)[:-1],
        f"{new_code(KEY, NOW)}{'x' * 1_000}",
    ]
    known = codes()
    assert [it for it in forged if known.use(it)] == []
    assert known.use(new_code(KEY, NOW)), "control"
