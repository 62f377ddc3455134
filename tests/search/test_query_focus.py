"""What a want is about: the thing after the verb, without where it is, whose it is and with what it is done."""

from __future__ import annotations

import pytest

from codemode_server.search.query_focus import focus_of


@pytest.mark.parametrize(
    ("want", "subject"),
    [
        ("show me the certificates in the key vault", "show me the certificates"),
        ("send a message to a channel", "send a message"),
        ("search for restaurants near the station", "search for restaurants"),
        ("what is the weather in Paris?", "what is the weather"),
        ("Create a new database called shop on the server", "Create a new database"),
        ("list open issues", "list open issues"),
        ("of the in for", "of the in for"),
        ("", ""),
    ],
)
def test_it_ends_before_the_first_preposition_behind_a_thing(want: str, subject: str) -> None:
    assert focus_of(want) == subject
