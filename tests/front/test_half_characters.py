"""Half a character, as `\\ud800` in JSON, is no text that can be written. A request that holds one is answered all the
same, with U+FFFD in its place."""

from __future__ import annotations

import json

import pytest

from codemode_server.front.opening import without_half_characters
from tests.front.test_opening_requests import INITIALIZED, answers, initialize, request


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00 \\ud800 \n \\\\"', "\U0001f600 \\ud800 \n \\\\"),
        (r'"\ud800"', "\ufffd"),
        (r'"\uDFFF\uD800"', "\ufffd\ufffd"),
        (r'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\ud83d\u0041"', "\ufffdA"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'{"\ud800": 1}', {"\ufffd": 1}),
    ],
)
def test_half_a_character_is_replaced_and_nothing_else(text: str, value: object) -> None:
    assert json.loads(without_half_characters(text)) == value


@pytest.mark.anyio
@pytest.mark.parametrize("path", [r"\ud83d\ude00", r"\ud800"], ids=["a whole one, as the positive control", "half"])
async def test_a_request_with_half_a_character_is_answered(path: str) -> None:
    call = json.dumps(request(3, "tools/call", name="list_dir", arguments={"path": "?"})).replace('"?"', f'"{path}"')
    found = await answers(
        [initialize(), INITIALIZED, call.encode() + b"\n", request("last", "ping")], with_opening=True
    )
    assert [answer["id"] for answer in found] == [1, 3]
