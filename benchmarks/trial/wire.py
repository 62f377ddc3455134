"""A model behind HTTP, in either wire format: OpenAI's chat completions, or Anthropic's messages. No SDK.

`Endpoint.ask` sends one conversation and gives the model's reply with its usage. It retries what passes by itself (a
limit of rates, an overloaded server, a broken connection), as long as `retry-after` says where that is given.
"""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import httpx2

PASSING = {408, 409, 425, 429}
"""Statuses that pass by themselves, beside those from 500 on."""
FATAL = {401, 403, 404}
"""Statuses that no other conversation can help: the key, the model or the address is wrong."""
TRIES, LONGEST_WAIT_S, TIMEOUT_S = 8, 120.0, 600.0
_BYTES_PER_TOKEN = 3
"""Fewer than text usually has, so that a request's size in tokens is estimated too high rather than too low."""


class EndpointError(Exception):
    """Raised when the endpoint can't be used: the trial stops, and may be resumed."""


class Refused(Exception):
    """Raised when the endpoint refuses this one conversation: it is too long, or has more tools than it takes."""


@dataclass(frozen=True)
class Prices:
    """Money per million tokens."""

    input: float
    output: float
    read: float
    """Input that comes from the cache of prompts."""
    write: float
    """Input that is written into that cache."""


@dataclass(frozen=True)
class Usage:
    """Tokens of a request; the three kinds of input don't overlap."""

    input: int = 0
    read: int = 0
    written: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input, self.read + other.read, self.written + other.written, self.output + other.output
        )

    def cost(self, prices: Prices) -> float:
        parts = (self.input * prices.input, self.read * prices.read, self.written * prices.write)
        return (sum(parts) + self.output * prices.output) / 1e6


@dataclass(frozen=True)
class Definition:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    """None where they are no JSON object."""


@dataclass(frozen=True)
class Reply:
    text: str
    requests: Sequence[Request]
    usage: Usage
    message: dict[str, Any]
    """As it is sent back in the next request."""
    seconds: float = 0.0
    """How long the try took that was answered; waits before it are left out."""


@dataclass
class Conversation:
    system: str
    tools: Sequence[Definition]
    messages: list[dict[str, Any]] = field(default_factory=list)


class Wire(ABC):
    """One wire format."""

    name: str
    path: str
    base_url: str

    @abstractmethod
    def headers(self, key: str) -> dict[str, str]: ...

    @abstractmethod
    def body(self, conversation: Conversation, model: str, max_output_tokens: int) -> dict[str, Any]: ...

    @abstractmethod
    def reply(self, answer: dict[str, Any]) -> Reply: ...

    @abstractmethod
    def results(self, results: Sequence[tuple[Request, str, bool]]) -> list[dict[str, Any]]:
        """Messages with the results of calls: the call, its text, and whether it failed."""


class OpenAIChat(Wire):
    name, path, base_url = "openai", "/chat/completions", "https://api.openai.com/v1"

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, conversation: Conversation, model: str, max_output_tokens: int) -> dict[str, Any]:
        tools = [
            {
                "type": "function",
                "function": {"name": it.name, "description": it.description, "parameters": dict(it.schema)},
            }
            for it in conversation.tools
        ]
        return {
            "model": model,
            "max_completion_tokens": max_output_tokens,
            "messages": [{"role": "system", "content": conversation.system}, *conversation.messages],
            **({"tools": tools} if tools else {}),
        }

    def reply(self, answer: dict[str, Any]) -> Reply:
        sent = answer["choices"][0]["message"]
        calls = sent.get("tool_calls") or []
        requests = [Request(it["id"], it["function"]["name"], _object(it["function"]["arguments"])) for it in calls]
        usage = answer["usage"]
        read = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        message = {"role": "assistant", "content": sent.get("content"), **({"tool_calls": calls} if calls else {})}
        counted = Usage(usage["prompt_tokens"] - read, read, 0, usage["completion_tokens"])
        return Reply(sent.get("content") or "", requests, counted, message)

    def results(self, results: Sequence[tuple[Request, str, bool]]) -> list[dict[str, Any]]:
        return [{"role": "tool", "tool_call_id": it.id, "content": text} for it, text, _ in results]


class AnthropicMessages(Wire):
    name, path, base_url = "anthropic", "/messages", "https://api.anthropic.com/v1"

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})

    def body(self, conversation: Conversation, model: str, max_output_tokens: int) -> dict[str, Any]:
        """Cached up to the system prompt, with the definitions before it, and up to the last message."""
        cached = {"cache_control": {"type": "ephemeral"}}
        *earlier, last = conversation.messages
        blocks = last["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        tools = [
            {"name": it.name, "description": it.description, "input_schema": dict(it.schema)}
            for it in conversation.tools
        ]
        return {
            "model": model,
            "max_tokens": max_output_tokens,
            "system": [{"type": "text", "text": conversation.system, **cached}],
            "messages": [*earlier, {**last, "content": [*blocks[:-1], {**blocks[-1], **cached}]}],
            **({"tools": tools} if tools else {}),
        }

    def reply(self, answer: dict[str, Any]) -> Reply:
        blocks = answer["content"]
        requests = [
            Request(it["id"], it["name"], it["input"] if isinstance(it["input"], dict) else None)
            for it in blocks
            if it["type"] == "tool_use"
        ]
        usage = answer["usage"]
        counted = Usage(
            usage["input_tokens"],
            usage.get("cache_read_input_tokens") or 0,
            usage.get("cache_creation_input_tokens") or 0,
            usage["output_tokens"],
        )
        text = "".join(it["text"] for it in blocks if it["type"] == "text")
        return Reply(text, requests, counted, {"role": "assistant", "content": blocks})

    def results(self, results: Sequence[tuple[Request, str, bool]]) -> list[dict[str, Any]]:
        blocks = [
            {"type": "tool_result", "tool_use_id": it.id, "content": text, "is_error": failed}
            for it, text, failed in results
        ]
        return [{"role": "user", "content": blocks}]


WIRES: dict[str, Wire] = {wire.name: wire for wire in (OpenAIChat(), AnthropicMessages())}


@dataclass
class Endpoint:
    wire: Wire
    base_url: str
    key: str
    model: str
    max_output_tokens: int = 8_192
    body: Mapping[str, Any] = field(default_factory=dict)
    """Merged into each request's body; a key with None is left out."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    async def ask(self, conversation: Conversation) -> Reply:
        """
        Raises:
            Refused: it does not take this conversation.
            EndpointError: it can't be used, or not now.
        """
        body = self._body(conversation)
        async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
            for number in range(TRIES):
                wait_s = min(2.0**number, LONGEST_WAIT_S) * random.uniform(0.5, 1)
                started = time.monotonic()
                try:
                    response = await client.post(
                        self.base_url + self.wire.path, headers=self.wire.headers(self.key), json=body
                    )
                except (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError) as error:
                    problem = f"{type(error).__name__}: {error}"
                except (httpx2.TransportError, httpx2.InvalidURL) as error:
                    raise EndpointError(f"{type(error).__name__}: {error}") from error
                else:
                    if response.is_success:
                        return replace(self._reply(response), seconds=time.monotonic() - started)
                    problem = f"HTTP {response.status_code}: {response.text[:500]}"
                    if response.status_code in FATAL:
                        raise EndpointError(problem)
                    if response.status_code not in PASSING and response.status_code < 500:
                        raise Refused(problem)
                    wait_s = _retry_after(response.headers.get("retry-after"), wait_s)
                if wait_s > LONGEST_WAIT_S:
                    raise EndpointError(f"{problem}; it asks to wait {wait_s:.0f} s: resume then")
                if number + 1 < TRIES:
                    await self.sleep(wait_s)
        raise EndpointError(f"{TRIES} tries failed; the last: {problem}")

    def most(self, conversation: Conversation) -> Usage:
        """An upper estimate of the next request's usage, all of its input written to the cache."""
        size = len(json.dumps(self._body(conversation)).encode())
        return Usage(written=size // _BYTES_PER_TOKEN, output=self.max_output_tokens)

    def _body(self, conversation: Conversation) -> dict[str, Any]:
        body = self.wire.body(conversation, self.model, self.max_output_tokens) | dict(self.body)
        return {name: value for name, value in body.items() if value is not None}

    def _reply(self, response: httpx2.Response) -> Reply:
        try:
            return self.wire.reply(response.json())
        except (ValueError, LookupError, TypeError) as error:
            raise EndpointError(
                f"not an answer in the format {self.wire.name} ({type(error).__name__}: {error}): {response.text[:500]}"
            ) from error


def _retry_after(value: str | None, usual_s: float) -> float:
    """Seconds; a date is not read, the usual wait takes its place."""
    try:
        return max(0.0, float(value or ""))
    except ValueError:
        return usual_s


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
