"""A program that goes on sending a secret of the configuration, which it can only have guessed, is ended."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import ExecutionError
from codemode_server.gateway.pipeline import MAX_GUESSES
from tests.gateway.test_learning import SECRET, Product


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "state")


async def send(product: Product, *notes: Any) -> None:
    calls = product.program()
    product.upstream.answer = {"ok": True}
    for note in notes:
        await product.gateway.call(calls, "git-hub", "list_issues", {"repo": note})


async def test_many_different_guesses_end_the_program_and_the_person_is_told(
    product: Product, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ExecutionError, match="sent a secret of the configuration in more than 20 calls"):
        await send(product, *(f"{number} {SECRET}" for number in range(MAX_GUESSES + 1)))
    (record,) = [it for it in caplog.records if it.levelno == logging.WARNING]
    assert "git_hub.list_issues" in record.getMessage()
    assert SECRET not in record.getMessage()


async def test_the_same_argument_may_be_sent_as_often_as_it_takes(product: Product) -> None:
    """A positive control: a program that pages with an argument that happens to hold one."""
    await send(product, *[SECRET] * 3 * MAX_GUESSES)


async def test_other_arguments_are_not_counted(product: Product) -> None:
    """A positive control."""
    await send(product, *(f"{number} {SECRET[:-1]}" for number in range(3 * MAX_GUESSES)))


async def test_programs_are_counted_one_by_one(product: Product) -> None:
    for _ in range(2):
        await send(product, *(f"{number} {SECRET}" for number in range(MAX_GUESSES)))
