"""Values and text cut to a budget: what is left is still what it was, and what is not there is counted."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from codemode_server.mcp_server.shortening import as_text, fit_text, fit_value, shares
from codemode_server.support.tokens import estimate_tokens

ROWS = [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(5_000)]


def cut(value: Any, budget: int = 300) -> Any:
    fitted = fit_value(value, budget)
    assert fitted.is_cut
    assert json.loads(fitted.text) == fitted.value
    assert estimate_tokens(fitted.text) <= budget
    return fitted.value


def test_what_fits_is_whole() -> None:
    fitted = fit_value({"a": [1, None, "ü"]}, 100)
    assert (fitted.value, fitted.text, fitted.is_cut) == ({"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}', False)


def test_every_key_of_a_dict_stays_beside_a_long_neighbour() -> None:
    left = cut({"long": ROWS, "text": "word " * 10_000, "none": None, "few": [1, 2, 3], "last": "end"})
    assert list(left) == ["long", "text", "none", "few", "last"]
    assert (left["none"], left["few"], left["last"]) == (None, [1, 2, 3], "end")
    assert left["long"][0] == ROWS[0]
    assert left["text"].endswith("… (50,000 characters)")


def test_of_too_many_keys_the_first_are_left_and_the_others_counted() -> None:
    left = cut({f"key {n}": n for n in range(1_000)})
    count = len(left) - 1
    assert list(left)[:count] == [f"key {n}" for n in range(count)]
    assert left["…"] == f"… {1_000 - count} more keys"


@pytest.mark.parametrize(
    ("value", "budget", "shown"),
    [
        (ROWS, 3_000, 25),
        (list(range(20_000)), 3_000, 25),
        ([f"file_{n}.txt" for n in range(900)], 1_000, 25),
        ([[n, {"n": n}] for n in range(5_000)], 3_000, 25),
        ([{"id": n, "body": "word " * 2_000} for n in range(50)], 3_000, 25),
        ([{"id": n, "body": "word " * 2_000} for n in range(50)], 100, 5),
        ([{"id": n, "body": "word " * 2_000} for n in range(7)], 1_000, 7),
    ],
)
def test_of_a_list_so_many_items_are_left_and_the_others_counted(value: list[Any], budget: int, shown: int) -> None:
    for left in (cut(value, budget), cut({"items": value, "count": len(value)}, budget + 10)["items"]):
        more = len(value) - shown
        assert left[shown:] == ([f"… {more:,} more items"] if more else [])
        assert all(type(one) is type(whole) for one, whole in zip(left[:shown], value, strict=False))


def test_a_dict_by_ids_is_cut_like_a_list() -> None:
    left = cut({f"id {n}": ROWS[n] for n in range(500)}, 2_000)
    assert list(left.values())[1:] == [*ROWS[1:25], "… 475 more keys"]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_value_its_cut_is_json_within_the_budget_and_always_the_same(seed: int) -> None:
    value = some_value(random.Random(seed), 4)
    for budget in (50, 200, 1_000):
        fitted = fit_value(value, budget)
        assert fit_value(value, budget) == fitted
        assert isinstance(value, str) or json.loads(fitted.text) == fitted.value
        assert estimate_tokens(fitted.text) <= budget + 25 or not fitted.is_cut
        assert len(fitted.text) <= budget * 6 or not fitted.is_cut


def some_value(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(6 if depth else 3)
    if kind == 0:
        return dice.choice([None, True, 10**12, 0.1, -7])
    if kind in (1, 2):
        return dice.choice(["x", "ü€😀", "word ", '"\\\n', " "]) * dice.choice([0, 1, 10, 3_000])
    if kind == 3:
        return {f"{dice.choice('abc')}{n}" * dice.choice([1, 1, 200]): some_value(dice, depth - 1) for n in range(9)}
    return [some_value(dice, depth - 1) for _ in range(dice.choice([0, 1, 7, 12]))]


def test_what_must_not_be_seen_is_taken_out_before_a_text_is_shortened() -> None:
    """Else what is left of it would not be known for what it is."""

    def safe(text: str) -> str:
        return text.replace("SECRET", "***")

    value = {"a": "SECRET" * 10_000, "SECRET" * 100: 1, "b": "SECRET"}
    text = fit_value(value, 100, safe=safe).text
    assert "***" in text
    assert not re.search("SEC|RET", text)


def test_blanks_that_cost_no_token_are_bounded_as_well() -> None:
    assert len(fit_text(" " * 100_000, 100)) <= 600
    assert len(as_text(fit_value([" " * 100_000] * 3, 100).value)) <= 600


def test_shares_are_what_each_wants_and_the_rest_in_equal_parts() -> None:
    assert shares([10, 1_000, 1_000], 410) == [10, 200, 200]
    assert shares([10, 20], 100) == [10, 20]
    assert shares([], 100) == []


@pytest.mark.parametrize("line", ['{"id": 17, "status": "pending"}\n', "Some words of prose. ", "日本語の文章です。"])
def test_the_middle_is_left_out_and_how_much_is_said(line: str) -> None:
    text = "BEGIN\n" + line * 3_000 + "\nEND"
    cut = fit_text(text, 500, remedy="return less")
    assert cut.startswith("BEGIN\n")
    assert cut.endswith("\nEND")
    assert estimate_tokens(cut) <= 560
    omitted = estimate_tokens(text) - estimate_tokens(cut)
    (note,) = [part for part in cut.split("\n") if part.startswith("[… ")]
    assert note.endswith(" tokens; return less …]")
    assert int(note.split(" tokens;")[0].split()[-1].replace(",", "")) == pytest.approx(omitted, rel=0.02)
