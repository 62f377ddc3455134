"""Content blocks keep the words of the protocol when any text of an answer may be a name."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.gateway.protocol_words import without_protocol_words
from codemode_server.privacy.detector import Detector
from codemode_server.privacy.queries import renamed_by

DOUBTFUL = renamed_by({"sql": "SELECT '\\' AS a, name AS b, '' AS c FROM people"})


def found(value: Any) -> list[str]:
    return [it.value for it in without_protocol_words(Detector().in_value(value, None, DOUBTFUL)).found]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "Xqaru Zedvik"},
        {"type": "text", "annotations": {"audience": ["user", "assistant"]}, "text": "Xqaru Zedvik"},
        {"type": "resource", "resource": {"mimeType": "text/csv", "text": "Xqaru Zedvik"}},
        {"role": "user", "content": {"type": "text", "text": "Xqaru Zedvik"}},
    ],
)
def test_the_words_of_a_block_stay_and_its_text_is_found(block: dict[str, Any]) -> None:
    assert found([block]) == ["Xqaru Zedvik"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "Xqaru Zedvik"},
        {"mimeType": "text/xqaru-zedvik"},
        {"annotations": {"audience": ["Xqaru"]}},
        {"x": "text"},
    ],
)
def test_other_words_in_these_places_and_these_words_elsewhere_are_found(block: dict[str, Any]) -> None:
    assert len(found([block])) == 1
