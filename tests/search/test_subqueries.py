"""A query → its wants: each thing that it asks for is ranked by itself, and one thing is never torn apart."""

from __future__ import annotations

import pytest

from codemode_server.search.subqueries import short_parts, subqueries


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            "list the open issues of a repository, then post a summary in a channel",
            ("list the open issues of a repository", "post a summary in a channel"),
        ),
        (
            "find hotels near the airport; book a taxi for tomorrow",
            ("find hotels near the airport", "book a taxi for tomorrow"),
        ),
        ("read the sales sheet and create a bar chart", ("read the sales sheet", "create a bar chart")),
        (
            "Convert the audio file to text. Translate the text to French.",
            ("Convert the audio file to text.", "Translate the text to French."),
        ),
    ],
)
def test_several_things_are_asked_for(query: str, found: tuple[str, ...]) -> None:
    assert subqueries(query) == found


@pytest.mark.parametrize(
    "query",
    [
        "list open issues",
        "search for issues and pull requests",
        "send a message to Alice, Bob and Carol",
        "restaurants and bars near me",
        "",
        "...;;;\n\n",
    ],
)
def test_one_thing_is_asked_for(query: str) -> None:
    assert subqueries(query) == ()


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("commit history and diffs", ("commit history", "diffs")),
        ("issues, labels and milestones", ("issues", "labels", "milestones")),
        ("list tables; row counts", ("list tables", "row counts")),
        ("weather + forecast", ("weather", "forecast")),
    ],
)
def test_a_short_query_has_a_part_for_each_thing_that_it_names(query: str, parts: tuple[str, ...]) -> None:
    assert short_parts(query) == parts


@pytest.mark.parametrize(
    "query",
    [
        "search and replace text",
        "commit history",
        "",
        ", ; +",
        "read the whole history of all commits and show the diffs",
    ],
)
def test_one_thing_with_two_verbs_and_a_long_query_have_no_short_parts(query: str) -> None:
    assert short_parts(query) == ()
