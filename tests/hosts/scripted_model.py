"""A model on loopback that runs one program and ends: the four provider APIs that tests/hosts needs, over HTTP.

It answers the first request that offers `execute_code` with one call of it, and every other request with a word. What
the hosts sent is in `requests`; `Seen` reads one of them, whatever its API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.answering import Asked, answering

TOOL = "execute_code"
Json = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What a model got of the tools and of the result, as its host wrote it."""

    names: list[str]
    description: str
    """Of `execute_code`."""
    result: str
    """All text of the result of the call."""
    images: list[str]
    """In base64, wherever the host put them after the call."""


@dataclass
class ScriptedModel:
    """The model's address and what it was asked."""

    code: str
    url: str = ""
    requests: list[tuple[str, Json]] = field(default_factory=list)
    """Path and body, in order."""

    def answer(self, path: str, body: Json) -> tuple[str, str]:
        """The content type and the body of a response."""
        self.requests.append((path, body))
        api = _api_of(path)
        if api is None:
            return "application/json", json.dumps({"totalTokens": 1, "input_tokens": 1, "data": [], "models": []})
        tool = next((it["name"] for it in _tools(api, body) if it["name"].endswith(TOOL)), None)
        call = (tool, {"code": self.code}) if tool and not _results(api, body) else None
        events = _EVENTS[api](call)
        if api == "messages" and not body.get("stream"):
            return "application/json", json.dumps(_message([{"type": "text", "text": "done"}], "end_turn"))
        if path.split("?")[0].endswith(":generateContent"):
            return "application/json", json.dumps(events[0])
        lines = []
        for event in events:
            lines.append(f"event: {event['type']}\n" if "type" in event else "")
            lines.append(f"data: {json.dumps(event)}\n\n")
        return "text/event-stream", "".join(lines) + ("data: [DONE]\n\n" if api == "completions" else "")

    def seen(self) -> Seen:
        """The request that brought the result of the call.

        Raises:
            LookupError: none did.
        """
        for path, body in self.requests:
            api = _api_of(path)
            if api and (results := _results(api, body)):
                texts, images = _texts_and_images(results)
                tools = _tools(api, body)
                (description,) = [tool["description"] for tool in tools if tool["name"].endswith(TOOL)]
                return Seen([tool["name"] for tool in tools], description, "\n".join(texts), images)
        raise LookupError(f"no request brought a result; there were {[path for path, _ in self.requests]}")


@contextmanager
def scripted_model(code: str) -> Iterator[ScriptedModel]:
    """Serve a model that runs this program."""
    model = ScriptedModel(code)

    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        content_type, text = model.answer(asked.path, json.loads(asked.body or b"{}"))
        return 200, {"content-type": content_type}, text.encode()

    with answering(answer) as model.url:
        yield model


def _api_of(path: str) -> str | None:
    path = path.split("?")[0]
    ends = {"/messages": "messages", "/responses": "responses", "/chat/completions": "completions"}
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return next((api for end, api in ends.items() if path.endswith(end)), None)


def _tools(api: str, body: Json) -> list[Json]:
    """Name and description of each; the namespace of Codex is part of its names."""
    match api:
        case "gemini":
            return [tool for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
        case "completions":
            return [tool["function"] for tool in body.get("tools", [])]
        case "responses":
            tools = []
            for tool in body.get("tools", []):
                inner = tool.get("tools", [])
                tools += [{**one, "name": f"{tool['name']}/{one['name']}"} for one in inner] or [tool]
            return [{"name": "", "description": "", **tool} for tool in tools]
    return [{"description": "", **tool} for tool in body.get("tools", [])]


def _results(api: str, body: Json) -> list[Any]:
    """All that came after the call, the result and what the host sent beside it."""
    match api:
        case "gemini":
            parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
            start = next((n for n, part in enumerate(parts) if "functionResponse" in part), len(parts))
            return parts[start:]
        case "responses":
            items = body.get("input", [])
            kinds = ("function_call_output", "custom_tool_call_output", "mcp_tool_call_output")
            return [item["output"] for item in items if isinstance(item, dict) and item.get("type") in kinds]
        case "completions":
            messages = body.get("messages", [])
            start = next((n for n, message in enumerate(messages) if message["role"] == "tool"), len(messages))
            return [message["content"] for message in messages[start:]]
    parts = [part for message in body.get("messages", []) for part in message["content"] if isinstance(part, dict)]
    return [part["content"] for part in parts if part.get("type") == "tool_result"]


def _texts_and_images(value: Any) -> tuple[list[str], list[str]]:
    """All strings of a result, apart from the images: base64 under `data`, or a data: URL."""
    texts: list[str] = []
    images: list[str] = []
    if isinstance(value, str):
        (images if value.startswith("data:image/") else texts).append(value.removeprefix("data:image/png;base64,"))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "data" and isinstance(item, str):
                images.append(item)
            else:
                inner = _texts_and_images(item)
                texts += inner[0]
                images += inner[1]
    elif isinstance(value, list):
        for item in value:
            inner = _texts_and_images(item)
            texts += inner[0]
            images += inner[1]
    return texts, images


Call = tuple[str, Json] | None


def _message(content: list[Json], stop_reason: str | None) -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _anthropic(call: Call) -> list[Json]:
    if call:
        block: Json = {"type": "tool_use", "id": "toolu_1", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": _message([], None)},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _responses(call: Call) -> list[Json]:
    if call:
        *namespace, name = call[0].rsplit("/", 1)
        item: Json = {"type": "function_call", "call_id": "call_1", "name": name, "arguments": json.dumps(call[1])}
        item |= {"namespace": namespace[0]} if namespace else {}
    else:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]


def _gemini(call: Call) -> list[Json]:
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": "done"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 2}}]


def _completions(call: Call) -> list[Json]:
    function = {"name": call[0], "arguments": json.dumps(call[1])} if call else {}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    delta = {"role": "assistant", **({"tool_calls": calls} if call else {"content": "done"})}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    ends = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    first = {"index": 0, "delta": delta, "finish_reason": None}
    return [head | {"choices": [first]}, head | {"choices": [ends]}]


_EVENTS = {"messages": _anthropic, "responses": _responses, "gemini": _gemini, "completions": _completions}
