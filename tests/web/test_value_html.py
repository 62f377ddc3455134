"""How JSON values stand on pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codemode_server.features.pages.value_html import MAX_CHARACTERS, part_at, summary, value_html, whole_html

HOSTILE = "</pre><script>x</script>\u202e"


def words(value: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", value_html(value)).split())


def test_dicts_of_one_form_are_a_table_and_others_a_tree() -> None:
    table = value_html([{"id": 1, "name": "Ann"}, {"id": 2, "tags": ["a", "b"]}])
    assert re.findall("<th[^>]*>([^<]*)</th>", table) == ["#", "id", "name", "tags"]
    assert table.count("<tr>") == 3
    assert '<td class="number">2</td><td></td><td><details>' in table
    for other in ([{"id": 1}], [{"id": 1}, 2], [{str(n): n for n in range(13)}] * 2, {"id": 1}):
        assert "<table" not in value_html(other)


def test_a_value_is_readable_without_quotes_and_escapes() -> None:
    value: dict[str, Any] = {
        "title": 'Say "hi"',
        "text": "one\ntwo",
        "none": None,
        "held": '{"a": [true]}',
        "not": "{no json}",
        "e": [],
    }
    assert (
        words(value)
        == "title Say &#34;hi&#34; text one two none null held 1 key in a text a 1 item 0 true not {no json} e no items"
    )
    assert "<pre>one\ntwo</pre>" in value_html(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        ["x" * 3_000] * 10_000,
        [{"a": n, "b": "y" * 500} for n in range(20_000)],
        {f"{n}" * 50: {"z": [n] * 50} for n in range(20_000)},
    ],
)
def test_the_html_of_a_large_value_is_bounded(value: Any) -> None:
    assert len(value_html(value, "/result")) < 10 * MAX_CHARACTERS


def test_a_deep_value_ends_in_a_link_to_what_is_below() -> None:
    value: Any = "bottom"
    for _ in range(40):
        value = [value]
    shown = value_html(value, "/result")
    (link,) = re.findall(r'href="\?at=([^"&]+)', shown)
    path = link.replace("%2F", "/")
    assert "bottom" not in shown
    below = value_html(part_at({"result": value}, path), path)
    (link,) = re.findall(r'href="\?at=([^"&]+)', below)
    assert "bottom" in value_html(part_at({"result": value}, link.replace("%2F", "/")))
    assert "bottom" in whole_html(value)


@pytest.mark.page_attack
def test_hostile_text_is_text_wherever_it_stands() -> None:
    values: list[Any] = [HOSTILE, {HOSTILE: HOSTILE}, [{HOSTILE: HOSTILE}] * 2, [[HOSTILE * 50]], HOSTILE * 100]
    for value in values:
        for shown in (value_html(value, f"/{HOSTILE}"), whole_html(value)):
            assert "&lt;script&gt;" in shown, "control"
            assert "<script" not in shown
            assert "\u202e" not in shown


@pytest.mark.page_attack
def test_what_a_person_decides_by_is_all_there() -> None:
    """A text that is JSON would hide the first of two equal keys."""
    texts = ['{"to": "eve", "to": "ann"}', "x" * 100_000 + "end", "k" * 5_000]
    shown = whole_html({"a": texts, texts[2]: [{"n": n} for n in range(500)]})
    for text in ("eve", "xend", "k" * 5_000, ">499<"):
        assert text in shown
    assert "href" not in shown


def test_a_summary_is_one_short_line() -> None:
    assert summary({"repo": "acme/web", "n": 7}) == 'repo="acme/web", n=7'
    assert len(summary({"k" * 1_000: "v" * 1_000_000, "more": [1] * 100})) == 160
