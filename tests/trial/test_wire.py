"""The two wire formats, and how long a request that failed waits for its next try."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from benchmarks.trial.wire import (
    TRIES,
    WIRES,
    Conversation,
    Definition,
    Endpoint,
    EndpointError,
    Prices,
    Refused,
    Request,
    Usage,
)
from tests.answering import Asked, answering

Answer = tuple[int, dict[str, str], bytes]
TALK = Conversation(
    "Be short.", [Definition("add", "Adds.", {"type": "object"})], [{"role": "user", "content": "1+2?"}]
)
OPENAI = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
                    {"id": "b", "type": "function", "function": {"name": "add", "arguments": '{"x": '}},
                ],
            }
        }
    ],
    "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}},
}
ANTHROPIC = {
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I add."},
        {"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}},
    ],
    "usage": {
        "input_tokens": 3,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 37,
        "output_tokens": 7,
    },
}


def endpoint(url: str, waits: list[float], wire: str = "openai") -> Endpoint:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Endpoint(WIRES[wire], url, "secret", "some-model", 50, {"temperature": 0}, sleep)


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def good(value: object) -> Answer:
    return 200, {}, json.dumps(value).encode()


async def test_openai_request_and_reply() -> None:
    asked: list[Asked] = []

    def answer(it: Asked) -> Answer:
        asked.append(it)
        return good(OPENAI)

    with answering(answer) as url:
        reply = await endpoint(f"{url}/v1", []).ask(TALK)
    assert asked[0].path == "/v1/chat/completions"
    assert asked[0].headers["authorization"] == "Bearer secret"
    assert json.loads(asked[0].body) == {
        "model": "some-model",
        "max_completion_tokens": 50,
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "1+2?"}],
        "tools": [
            {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
        ],
        "temperature": 0,
    }
    assert reply.requests == [Request("a", "add", {"x": 1}), Request("b", "add", None)]
    assert reply.usage == Usage(input=40, read=60, written=0, output=7)
    assert WIRES["openai"].results([(reply.requests[0], "3", False)]) == [
        {"role": "tool", "tool_call_id": "a", "content": "3"}
    ]


async def test_anthropic_request_and_reply() -> None:
    """The definitions and the system prompt are cached as one part, the conversation up to its end as another."""
    asked: list[Asked] = []

    def answer(it: Asked) -> Answer:
        asked.append(it)
        return good(ANTHROPIC)

    with answering(answer) as url:
        reply = await endpoint(f"{url}/v1", [], "anthropic").ask(TALK)
    cached = {"cache_control": {"type": "ephemeral"}}
    assert asked[0].path == "/v1/messages"
    assert asked[0].headers["x-api-key"] == "secret"
    assert json.loads(asked[0].body) == {
        "model": "some-model",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be short.", **cached}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "1+2?", **cached}]}],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "temperature": 0,
    }
    assert (reply.text, reply.requests) == ("I add.", [Request("a", "add", {"x": 1})])
    assert reply.usage == Usage(input=3, read=60, written=37, output=7)
    assert reply.message == {"role": "assistant", "content": ANTHROPIC["content"]}
    (sent,) = WIRES["anthropic"].results([(reply.requests[0], "broken", True)])
    assert sent["content"] == [{"type": "tool_result", "tool_use_id": "a", "content": "broken", "is_error": True}]


async def test_a_limit_of_rates_is_waited_for_as_long_as_the_endpoint_says() -> None:
    waits: list[float] = []
    with answering(in_turn((429, {"retry-after": "7"}, b""), (503, {}, b""), good(OPENAI))) as url:
        await endpoint(url, waits).ask(TALK)
    assert waits[0] == 7
    assert 1 <= waits[1] <= 2


async def test_a_limit_that_takes_hours_stops_the_trial_at_once() -> None:
    waits: list[float] = []
    with (
        answering(in_turn((429, {"retry-after": "7200"}, b""))) as url,
        pytest.raises(EndpointError, match="wait 7200"),
    ):
        await endpoint(url, waits).ask(TALK)
    assert waits == []


async def test_an_endpoint_that_stays_away_is_given_up_and_what_it_said_last_is_named() -> None:
    waits: list[float] = []
    with answering(in_turn((500, {}, b"out of memory"))) as url, pytest.raises(EndpointError, match="of memory"):
        await endpoint(url, waits).ask(TALK)
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((401, {}, b"no key"), EndpointError),
        ((400, {}, b"too long"), Refused),
        ((200, {}, b"<html>"), EndpointError),
        ((200, {}, b'{"choices": []}'), EndpointError),
    ],
    ids=["key", "conversation", "no JSON", "another format"],
)
async def test_what_no_other_try_can_help_is_tried_once(answer: Answer, error: type[Exception]) -> None:
    waits: list[float] = []
    with answering(in_turn(answer)) as url, pytest.raises(error):
        await endpoint(url, waits).ask(TALK)
    assert waits == []


def test_the_cost_of_usage() -> None:
    usage = Usage(input=1_000_000, read=2_000_000, written=4_000_000, output=100_000)
    assert usage.cost(Prices(input=3, output=15, read=0.3, write=3.75)) == pytest.approx(3 + 0.6 + 15 + 1.5)
    assert usage + Usage(output=5) == Usage(1_000_000, 2_000_000, 4_000_000, 100_005)
