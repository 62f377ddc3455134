"""Upstream names → Python names: legal, unique, and the same whatever else is listed and in whatever order."""

from __future__ import annotations

import itertools
import keyword

import pytest

from codemode_server.catalog.naming import MAX_NAME_CHARACTERS, parameter_names, server_names, tool_names


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("create_issue", "create_issue"),
        ("sheetId", "sheetId"),
        ("API-post-search", "API_post_search"),
        ("TwilioApiV2010--ListCall", "TwilioApiV2010_ListCall"),
        ("2fa/enable", "tool_2fa_enable"),
        ("import", "import_"),
        ("set", "set_"),  # else `set()` in a program would be a call
        ("tool", "tool_"),
        ("Any", "Any_"),
        ("match", "match"),  # a keyword in places only; legal as a name
        ("__init__", "init"),  # would be the package's own file
        ("__import__('os')", "import___os"),
        ("_private", "_private"),
        ("nul", "nul_"),
        ("größe", "größe"),
        ("查询", "查询"),
        ("ｆｕｌｌ", "full"),
        ("a\nb\u202ec", "a_b_c"),
        ("", "tool_4oym"),
        ("🎉", "tool_mfdc"),
    ],
)
def test_a_tool_gets_the_name_that_python_can_import(raw: str, name: str) -> None:
    assert tool_names([raw]) == {raw: name}


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("auth-method", "auth_method"),
        ("$filter", "filter"),
        ("site.id", "site_id"),
        ("StartTime<", "StartTime_lt"),
        ("StartTime>", "StartTime_gt"),
        ("from", "from_"),
        ("type", "type"),  # no danger: a parameter hides nothing outside of its function
        ("__typename", "typename"),  # two underscores would make it positional-only
        ("__debug__", "debug"),  # the one identifier that can't be a parameter
        ("1st", "arg_1st"),
        ("x: int = __import__('os')", "x_int___import___os"),
    ],
)
def test_a_parameter_keeps_its_name_as_far_as_python_allows(raw: str, name: str) -> None:
    assert parameter_names([raw]) == {raw: name}


def test_of_two_equal_names_the_clean_one_keeps_it_and_the_other_carries_a_hash() -> None:
    assert tool_names(["list-issues", "list_issues"]) == {
        "list-issues": "list_issues_xq2f",
        "list_issues": "list_issues",
    }


def test_names_do_not_depend_on_the_order_of_the_listing() -> None:
    raw = ["a-b", "a.b", "a_b", "A_B", "a_b_c", "from", "from_"]
    assert len({tuple(sorted(tool_names(order).items())) for order in itertools.permutations(raw)}) == 1


def test_a_long_name_is_cut_and_two_that_begin_alike_stay_apart() -> None:
    names = tool_names(["x" * 500, "x" * 501, "查" * 500])
    assert len(set(names.values())) == 3
    assert all(len(name.encode()) <= 2 * MAX_NAME_CHARACTERS for name in names.values())


def test_whatever_comes_in_a_legal_name_comes_out() -> None:
    hostile = [*"\ud800\x00½ª𝓪ﬁ_İ", "a²", "\u0301x", "a\u200db", "١٢", "__", "class", "-" * 300]
    for names in (tool_names(hostile), parameter_names(hostile), server_names(hostile)):
        assert len(set(names.values())) == len(hostile)
        for name in names.values():
            assert name.isidentifier()
            assert not keyword.iskeyword(name)
            exec(f"def f({name}): return {name}")
