"""What differs, as a person reads it in a question: marked by elements, signs and words, not by colour alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from codemode_server.web.rendering import difference_html


def items(*lines: str) -> list[str]:
    """The items, without what says to which side one belongs."""
    shown = difference_html(lines)
    return [re.sub(r'<span.*</span>| class="whole"', "", it) for it in re.findall(r"<li [^>]*>(.*?)</li>", shown)]


def test_words_that_differ_are_marked_in_both_lines() -> None:
    assert items('- title: "It fails with a cart"', '+ title: "It fails with a basket!"') == [
        " title: &quot;It fails with a <del>cart</del>&quot;",
        " title: &quot;It fails with a <ins>basket!</ins>&quot;",
    ]


def test_each_line_says_for_eyes_and_ears_to_which_side_it_belongs() -> None:
    shown = difference_html(["- a: 1", "+ a: 2"])
    assert re.findall('<span aria-hidden="true">(.)</span><span class="spoken">([^<]*)</span>', shown) == [
        ("-", "before: "),
        ("+", "now: "),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["- a: 1 2 3 4"], ["<del> a: 1 2 3 4</del>"]),
        (["+ a: 1 2 3 4"], ["<ins> a: 1 2 3 4</ins>"]),
        (["- b", "- a: one", "+ a: two"], ["<del> b</del>", "<del> a: one</del>", "<ins> a: two</ins>"]),
        (["- a: one", "+ a: two", "+ b"], ["<del> a: one</del>", "<ins> a: two</ins>", "<ins> b</ins>"]),
        (["- quite other words", "+text"], ["<del> quite other words</del>", "<ins>text</ins>"]),
        (["differs: the description", "- a"], ["differs: the description", "<del> a</del>"]),
    ],
)
def test_lines_without_one_counterpart_are_marked_whole(lines: Sequence[str], expected: list[str]) -> None:
    assert items(*lines) == expected


@pytest.mark.page_attack
def test_hostile_text_stays_text_and_cannot_end_a_mark() -> None:
    shown = difference_html(["- a: </del></li><script>x</script>\u202e", "+ a: <b></ins><img src=x onerror=y>\u200b"])
    tags = set(re.findall(r"<(/?\w+)", shown))
    assert tags == {"ul", "/ul", "li", "/li", "span", "/span", "del", "/del", "ins", "/ins"}
    assert "&lt;script&gt;" in re.sub("</?del>", "", shown), "control"
    assert "\u202e" not in shown
    assert "\\u202e" in re.sub("</?del>", "", shown)
