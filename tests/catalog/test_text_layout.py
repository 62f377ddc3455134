"""What is known of a tool's texts: their layout in one of a few fixed phrases, and the first line of one where values
may be kept."""

from __future__ import annotations

import time

import pytest

from codemode_server.catalog._text_layout import LAYOUTS, MAX_SAMPLE_CHARACTERS, TextSample
from codemode_server.catalog.summaries import contains_summary
from codemode_server.upstreams.unmarked_errors import unmarked_error

TEXTS = {
    "": "one line",
    "On branch main": "one line",
    "name: Ann\ncity: Oslo\n\njoined: today": "lines `key: value`",
    "Files:\n- a.txt\n- b.txt\n- c.txt\n- d.txt": "a list, one item a line",
    "1. first\n2. second": "a list, one item a line",
    "Found 2:\n\n| id | name |\n|----|:----:|\n| 1 | Ann |": "markdown with a table",
    "# Report\n\nAll is well.": "markdown",
    "<html>\n<body>\n</html>": "XML or HTML",
    "id\tname\n1\tAnn": "lines of tab-separated fields",
    "id,name\n1,Ann\n2,Bob": "lines of comma-separated fields",
    "It began.\nThen it went on.\nAnd it ended: well.": "lines of text",
}


SIZE = 1_000_000
HOSTILE = {
    "blanks below a head": "x|y\n" + " " * SIZE + "x",
    "blanks below a head, in cells": "x|y\n" + " | " * (SIZE // 3) + "x",
    "dashes below a head": "x|y\n" + "-" * SIZE + "x",
    "open brackets": "[" * SIZE,
    "stars": "*a" * (SIZE // 2),
    "short lines": "a:\n" * (SIZE // 3),
    "tabs": "x\t" * (SIZE // 2),
    "a traceback": "Traceback (most recent call last):\n" + "A." * (SIZE // 2),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_takes_little_longer_than_a_plain_one_of_its_size(name: str) -> None:
    """All of this runs on the event loop, for each result."""

    def seconds(text: str) -> float:
        def once() -> float:
            start = time.thread_time()
            TextSample.of(text, keep_values=True)
            unmarked_error(text)
            unmarked_error({"error": text})
            contains_summary(text, "a summary")
            return time.thread_time() - start

        return min(once() for _ in range(3))

    assert seconds(HOSTILE[name]) < 20 * seconds("one word after the other\n" * (SIZE // 25))


@pytest.mark.parametrize(("text", "layout"), TEXTS.items())
def test_the_layout_is_one_of_a_few_phrases(text: str, layout: str) -> None:
    assert TextSample.of(text, keep_values=False) == TextSample(layout)
    assert layout in LAYOUTS


def test_the_first_line_is_kept_cleaned_and_cut_only_where_values_may_be_kept() -> None:
    text = "\n\x1b[31mOn\u202e branch\tmain" + " x" * 100 + "\nsecret line"
    sample = TextSample.of(text, keep_values=True).first_line
    assert sample.startswith("On branch main x x")
    assert len(sample) <= MAX_SAMPLE_CHARACTERS
    assert TextSample.of(text, keep_values=False).first_line == ""
