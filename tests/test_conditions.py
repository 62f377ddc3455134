"""Conditions of permission rules: when they are true, what can't be evaluated, and how long hostile arguments take."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import pytest

from codemode_server.calls.policy import conditions
from codemode_server.calls.policy.conditions import MAX_VALUES, Arguments, Condition, NotEvaluable
from codemode_server.support.extras import install_command
from tests.tables import rows, tables

TABLES = tables(__file__)


def holds(text: str, **arguments: Any) -> bool:
    return Condition(text).holds(Arguments(arguments))


@pytest.mark.parametrize(("text", "arguments", "expected"), rows(TABLES["holds"]))
def test_a_condition_is_true_or_false(text: str, arguments: dict[str, Any], expected: bool) -> None:
    assert holds(text, **arguments) is expected


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        ('args.owner == "acme"', {}, 'Key not found in map : "owner"'),
        ("args.n < 5", {"n": "4"}, "No matching overloads"),
        ("args.n > 5", {"n": 2**70}, "out of range"),
        ("args.n", {"n": "yes"}, "it gives string"),
        ('args.owner == "acme"', {"owner": "\ud800"}, "."),
        ('args.owner == "acme"', {"owner": "acme\0"}, "NUL"),
        ('args.owner == "acme"', {"owner\0": "acme"}, "NUL"),
        ('args.owner == "acme"', {"owner": "acme", "more": [{"x\0": 1}]}, "NUL"),
        ("args.s.matches(args.p)", {"s": "a", "p": "("}, "invalid regular expression"),
    ],
)
def test_what_is_missing_or_of_another_type_can_t_be_evaluated(text: str, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(NotEvaluable, match=why):
        holds(text, **arguments)


@pytest.mark.parametrize(("text", "message"), rows(TABLES["refused"]))
def test_what_is_no_condition_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Condition(text)


def test_where_the_extra_is_missing_a_condition_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    conditions._environment.cache_clear()
    with pytest.raises(ValueError, match=re.escape(install_command("conditions"))):
        Condition("args.owner == 'acme'")


NESTED: dict[str, Any] = {}
for _ in range(2_000):
    NESTED = {"x": NESTED}


class TestHostileArguments:
    """Each is more than a program needs to hold up other calls, if it were evaluated as it is."""

    @pytest.mark.parametrize(
        ("text", "arguments"),
        [
            ("size(args.l) > 0", {"l": [0] * MAX_VALUES}),
            ("size(args.l) > 0", {"l": [[{}] * 400] * 400}),
            ("args.l.all(x, args.l == args.l)", {"l": list(range(3_000))}),
            ("args.l.all(x, args.l.all(y, x + y < 100000))", {"l": list(range(3_000))}),
            ("args.l.all(x, !args.s.contains(x))", {"l": ["y"] * 3_000, "s": "x" * 2**20}),
            ('args.s.split("").all(x, args.s.contains(x))', {"s": "x" * 100_000}),
            ("args.x.x == 1", {"x": NESTED}),
        ],
    )
    def test_that_are_too_large_can_t_be_evaluated_and_that_takes_no_time(
        self, text: str, arguments: dict[str, Any]
    ) -> None:
        condition, began = Condition(text), time.thread_time()
        with pytest.raises(NotEvaluable, match=r"too large|more than"):
            condition.holds(Arguments(arguments))
        assert time.thread_time() - began < 0.5
