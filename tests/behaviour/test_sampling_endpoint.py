"""Sampling by a model of the configuration: what is sent to its address, and what of the answer the upstream gets.

`FakeModel` is a fake: a real HTTP server that speaks the format of OpenAI's chat completions, and answers as told.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from .product import Answer, Host, configuration, in_memory_for_all
from .test_input_requests import HI, asking

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEY = "k3y-of-the-endpoint"
OTHER_SECRET = "s3cr3t-of-the-server"
TIMEOUT_S = 1.0


def answer_of(text: Any, reason: str = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": reason}]}


@dataclass
class FakeModel:
    """What it answers, and what it was asked."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    has_end: bool = True
    """Whether the answer ends; without, it comes byte by byte until the client is gone."""
    asked: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    """Path, `Authorization` and body of each request."""
    url: str = ""

    def says(self, answer: Any, status: int = 200, **headers: str) -> None:
        self.status, self.headers, self.has_end = status, headers, True
        self.body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.asked.clear()


@contextmanager
def serving_model() -> Iterator[FakeModel]:
    model, is_over = FakeModel(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.asked.append((self.path, self.headers["authorization"], body))
            self.send_response(model.status)
            for name, value in model.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if model.has_end:
                self.wfile.write(model.body)
                return
            try:
                while not is_over.wait(0.05):
                    self.wfile.write(b" ")
            except OSError:
                return

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name is the base's

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model.url = f"http://127.0.0.1:{server.server_port}"
        yield model
        is_over.set()
        server.shutdown()


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with serving_model() as model:
        yield model


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(model: FakeModel, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """The host has no model of its own."""
    folder: Path = tmp_path_factory.mktemp("endpoint")
    endpoint = {"url": f"{model.url}/v1", "model": "qwen3", "api_key": KEY, "max_tokens": 40, "timeout": TIMEOUT_S}
    server = asking(folder, "legacy", sampling=endpoint, env={"API_TOKEN": OTHER_SECRET})
    path = configuration(folder, server, limits={"input_requests": 1_000})
    async with in_memory_for_all(path) as host:
        yield host


async def sample(host: Host, **params: Any) -> Answer:
    request = {"method": "sampling/createMessage", "params": {"messages": [HI], "maxTokens": 50, **params}}
    return await host.run(f"from servers.asking import ask\nask(requests=[{request!r}])[0]")


async def test_the_model_is_asked_in_its_format_and_its_answer_reaches_the_server(host: Host, model: FakeModel) -> None:
    model.says(answer_of("hi there", "length"))
    answer = await sample(host, systemPrompt="Be brief.", temperature=0.5, stopSequences=["END"])
    assert answer.value == {
        "role": "assistant",
        "content": {"type": "text", "text": "hi there"},
        "model": "qwen3",
        "stopReason": "maxTokens",
    }
    ((path, authorization, body),) = model.asked
    assert (path, authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert body == {
        "model": "qwen3",
        "messages": [
            {"role": "system", "content": "(This request comes from the MCP server 'asking'.)\nBe brief."},
            {"role": "user", "content": "Say hi."},
        ],
        "max_tokens": 40,
        "temperature": 0.5,
        "stop": ["END"],
    }


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {"error": {"message": f"wrong key {KEY}"}}, "the model of the configuration answers 401"),
        (500, b"Traceback: /home/ada/model.py", "the model of the configuration answers 500"),
        (200, b"<html>no JSON", "the model of the configuration gave no text"),
        (200, {"choices": []}, "the model of the configuration gave no text"),
        (200, answer_of(None), "the model of the configuration gave no text"),
        (200, b"[" * 100_000, "the model of the configuration gave no text"),
        (200, b"x" * (2**20 + 1), "the model's answer is too large"),
    ],
)
async def test_a_failing_model_is_an_error_that_tells_the_server_nothing_that_the_model_said(
    host: Host, model: FakeModel, status: int, body: Any, told: str
) -> None:
    model.says(body, status)
    answer = await sample(host)
    assert answer.value == {"error": told}
    assert len(model.asked) == 1


async def test_a_redirect_is_not_followed_so_the_key_reaches_no_other_address(host: Host, model: FakeModel) -> None:
    with serving_model() as other:
        other.says(answer_of("stolen"))
        model.says(b"", 307, location=f"{other.url}/v1/chat/completions")
        assert (await sample(host)).value == {"error": "the model of the configuration answers 307"}
        assert other.asked == []


async def test_secrets_are_masked_in_what_is_asked_and_what_is_answered(host: Host, model: FakeModel) -> None:
    model.says(answer_of(f"I know {OTHER_SECRET} and {KEY}"))
    code = f"""
from servers.asking import ask
text = {OTHER_SECRET[:8]!r} + {OTHER_SECRET[8:]!r} + " and " + {KEY[:8]!r} + {KEY[8:]!r}
content = {{"type": "text", "text": text}}
ask(requests=[{{"method": "sampling/createMessage", "params": {{"messages": [
    {{"role": "user", "content": content}}], "systemPrompt": text, "maxTokens": 5}}}}])[0]
"""
    value = (await host.run(code)).value
    shown = json.dumps([value, model.asked[0][2]])
    assert value["content"]["text"].startswith("I know ")
    assert "and" in model.asked[0][2]["messages"][1]["content"]
    assert OTHER_SECRET not in shown
    assert KEY not in shown


async def test_an_answer_that_does_not_end_is_given_up_in_time(host: Host, model: FakeModel) -> None:
    """Each byte comes in time, the answer does not."""
    model.says(b"")
    model.has_end = False
    assert (await sample(host)).value == {"error": "the model of the configuration gave no answer in time"}
    model.says(answer_of("back"))
    assert (await sample(host)).value["content"]["text"] == "back"
