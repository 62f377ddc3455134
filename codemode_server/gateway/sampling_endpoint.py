"""Answers a sampling request by a model behind an OpenAI-compatible address (`servers.<name>.sampling`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio

from codemode_server.domain.input_requests import InputRefused
from codemode_server.settings import SamplingEndpoint

_MAX_ANSWER_BYTES = 2**20
_PATH = "/chat/completions"
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens"}


async def sample(params: Mapping[str, Any], endpoint: SamplingEndpoint) -> dict[str, Any]:
    """The result of `sampling/createMessage`; `params` as `forwarded_request` gives them.

    Raises:
        InputRefused: there is no answer. The upstream is not told what the endpoint said.
    """
    import httpx2

    try:
        with anyio.fail_after(endpoint.timeout):  # each part of an answer may come in time, and the answer never end
            status, received = await _ask(params, endpoint)
    except TimeoutError:
        raise InputRefused("the model of the configuration gave no answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL):
        raise InputRefused("the model of the configuration can't be reached") from None
    if status != 200:
        raise InputRefused(f"the model of the configuration answers {status}")
    return _result(received, endpoint)


async def _ask(params: Mapping[str, Any], endpoint: SamplingEndpoint) -> tuple[int, bytes]:
    """The status and the body of the endpoint's answer."""
    import httpx2

    url = endpoint.url.rstrip("/")
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    # Redirects are not followed: the key must not reach another address.
    async with (
        httpx2.AsyncClient(headers=headers, follow_redirects=False, timeout=None) as client,
        client.stream("POST", url if url.endswith(_PATH) else url + _PATH, json=_request(params, endpoint)) as response,
    ):
        received = bytearray()
        async for part in response.aiter_bytes():
            received += part
            if len(received) > _MAX_ANSWER_BYTES:
                raise InputRefused("the model's answer is too large")
    return response.status_code, bytes(received)


def _request(params: Mapping[str, Any], endpoint: SamplingEndpoint) -> dict[str, Any]:
    messages = [{"role": "system", "content": params["systemPrompt"]}]
    messages += [{"role": one["role"], "content": _text(one["content"])} for one in params["messages"]]
    asked: dict[str, Any] = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": min(params["maxTokens"], endpoint.max_tokens),
    }
    if "temperature" in params:
        asked["temperature"] = params["temperature"]
    if params.get("stopSequences"):
        asked["stop"] = params["stopSequences"][:4]
    return asked


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    if any(block["type"] != "text" for block in blocks):
        raise InputRefused("only text can be sent to the model of the configuration")
    return "\n".join(block["text"] for block in blocks)


def _result(received: bytes, endpoint: SamplingEndpoint) -> dict[str, Any]:
    try:
        choice = json.loads(received)["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        text = reason = None
    if not isinstance(text, str):
        raise InputRefused("the model of the configuration gave no text")
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": endpoint.model,
        "stopReason": _STOP_REASONS.get(str(reason), "endTurn"),
    }
