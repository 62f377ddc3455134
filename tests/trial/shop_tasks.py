"""Two tasks on the shop of the example servers, for trials that need no registry: one to solve, one whose reference
solution is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Call
from benchmarks.trial.task import Opened, OtherPlace, Solution, Task

SHOP = Path(__file__).parents[1] / "example_servers" / "shop.py"


def tasks() -> list[Task]:
    order = Solution(
        [[Call("shop/price", {"item": "tea"})], [Call("shop/order", {"item": "tea", "amount": 2})]],
        ["from servers.shop import order, price\nprice(item='tea')['price'], order(item='tea', amount=2)"],
        "Two teas are ordered, 14 in all.",
    )
    report = Solution([[Call("shop/price", {"item": "tea"})]], ["from servers.shop import price\nprice(item='tea')"])
    wrong = Solution([], [], "It costs 8.")
    return [
        Task("order", "shop", ("Order two teas.", "What is the price?"), "tie", _order, solution=(order, report)),
        Task("price", "shop", ("What does coffee cost?",), "direct", _price, solution=(wrong,)),
    ]


@contextmanager
def _order(folder: Path) -> Iterator[Opened]:
    def check(answers: Sequence[str]) -> str | None:
        lines = (folder / "shop.log").read_text().splitlines()
        if lines.count('order ["tea", 2]') != 1:
            return f"two teas were not ordered once: {lines}"
        return None if "14" in answers[0] and "7" in answers[1] else f"not the price: {answers}"

    yield Opened(_servers(folder), OtherPlace(folder / "data"), check)


@contextmanager
def _price(folder: Path) -> Iterator[Opened]:
    yield Opened(
        _servers(folder),
        OtherPlace(folder / "data"),
        lambda answers: None if "7" in answers[0] else f"not the price: {answers[0]}",
    )


def _servers(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    return {"shop": {"command": sys.executable, "args": [str(SHOP), str(folder / "shop.log")]}}
