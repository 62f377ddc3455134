"""What differs, as a person reads it in a question: marked by elements, signs and words, not by colour alone."""

from __future__ import annotations

import re

import pytest

from codemode_server.web.rendering import difference_html


def test_a_line_is_removed_added_or_a_title() -> None:
    shown = difference_html(["differs: the description", "- a: 1 < 2", "+ b"])
    assert re.findall("<li class=.(\\w+).>", shown) == ["part", "removed", "added"]
    assert "differs: the description" in shown
    assert "<del> a: 1 &lt; 2</del>" in shown
    assert "<ins> b</ins>" in shown


@pytest.mark.page_attack
def test_hostile_text_stays_text_and_cannot_end_a_mark() -> None:
    shown = difference_html(["- a: </del></li><script>x</script>\u202e", "+ a: <b></ins><img src=x onerror=y>\u200b"])
    tags = set(re.findall(r"<(/?\w+)", shown))
    assert tags == {"ul", "/ul", "li", "/li", "span", "/span", "del", "/del", "ins", "/ins"}
    assert "&lt;script&gt;" in re.sub("</?del>", "", shown), "control"
    assert "\u202e" not in shown
    assert "\\u202e" in re.sub("</?del>", "", shown)
