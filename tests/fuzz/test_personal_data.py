"""Personal data in any value: findings lie where they say, the search ends, and a text has what its value has."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.findings import Place
from codemode_server.features.privacy.replacing import without_escapes
from tests.fuzz.strategies import texts, values

DETECTOR = Detector()
PERSONAL = st.sampled_from(
    ("j@x.org", "4111 1111 1111 1111", "DE89370400440532013000", "+49 30 901820", "2001:db8::1:2", "12 rue de la Paix")
)


def at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


@given(st.one_of(values, st.lists(st.tuples(texts, PERSONAL).map("".join))))
@example(["\u00adj@x.org", "\x1b[31m\\'j@x.org"])
def test_a_finding_lies_where_it_says(value: Any) -> None:
    for one in DETECTOR.in_value(value).found:
        whole = one.place[-1] if one.is_key else str(at(value, one.place))
        assert isinstance(whole, str)
        assert without_escapes(whole[one.start : one.end])[0] == one.value
        assert 0 < one.confidence <= 1


@given(texts, st.sampled_from((" ", "\n", "; ")), PERSONAL)
def test_what_stands_on_a_line_of_its_own_is_found_whatever_is_before(before: str, separator: str, value: str) -> None:
    text = f"{before}{separator}\n\n{value}"
    assert any(one.end == len(text) for one in DETECTOR.in_value(text).found)
