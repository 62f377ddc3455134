"""Which characters JSON text holds beyond U+FFFF, as UTF-8 or as escapes, wherever in a long text they stand."""

from __future__ import annotations

import pytest

from codemode_server.json_escapes import has_wide_characters

PIECE = 2**20
"""A long text is searched in pieces of this size."""


@pytest.mark.parametrize("before", [0, PIECE - 1, PIECE - 5, PIECE])
@pytest.mark.parametrize("character", ["😀".encode(), rb"\ud83d\ude00", rb"\uD83D\uDE00"])
def test_a_wide_character_is_found_wherever_it_stands(character: bytes, before: int) -> None:
    assert has_wide_characters(b"a" * before + character)


@pytest.mark.parametrize("text", [b"", b"\\" * 3 * PIECE, "é€".encode() * PIECE, rb"\ue000\udeadbeef" * PIECE])
def test_other_characters_and_escapes_are_not_wide(text: bytes) -> None:
    assert not has_wide_characters(text)
