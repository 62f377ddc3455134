"""The seed of a program."""

from __future__ import annotations

from codemode_server.domain.repetition import SEED_BYTES, Repeat


def test_a_new_program_has_a_seed_of_its_own() -> None:
    one, other = Repeat.new(), Repeat.new()
    assert len(one.seed) == SEED_BYTES
    assert one.seed != other.seed
    assert "seed" not in repr(one)
