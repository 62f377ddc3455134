"""An encoder behind an OpenAI-compatible address: what is sent there, what is believed of it, what follows if it fails.

The server is a real one over HTTP, in this process; it speaks the format and stands in for a large model by hashing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codemode_server.config import load
from codemode_server.config.description import describe
from codemode_server.domain.errors import EncoderFailed, SettingsError
from codemode_server.redaction import MASK, Redactor
from codemode_server.search.encoding.build_encoders import vector_rankers
from codemode_server.search.encoding.client import ProcessEncoder
from codemode_server.search.encoding.resolve_model import model_sources
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.settings import SearchSettings
from tests.search.encoders import hashed, tools
from tests.search.test_ranker_stack import kept, until

pytestmark = pytest.mark.slow
KEY = "sk-embed-0123456789"


class Service(ThreadingHTTPServer):
    """Answers as its `answer` says, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answer: Callable[[dict[str, Any]], tuple[int, bytes]] = embeddings
        self.headers: dict[str, str] = {}
        self.goes_on = threading.Event()
        self.goes_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        service = self.server
        assert isinstance(service, Service)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        service.requests.append((self.path, self.headers["Authorization"], asked))
        status, body = service.answer(asked)
        service.goes_on.wait()
        self.send_response(status)
        for name, value in service.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class has
        """Nothing on stderr."""


def vectors(texts: list[str], dimensions: int = 32) -> list[list[float]]:
    return [[float(number) for number in row] for row in hashed(texts, dimensions)]


def answer_of(rows: list[Any]) -> bytes:
    data = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]
    return json.dumps({"object": "list", "data": data[::-1], "model": "m", "usage": {}}).encode()


def embeddings(asked: dict[str, Any]) -> tuple[int, bytes]:
    """In another order than asked for, which the format allows."""
    return 200, answer_of(vectors(asked["input"], asked.get("dimensions", 32)))


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.goes_on.set()
    made.shutdown()
    thread.join()
    made.server_close()


@contextmanager
def remote(service: Service, prompts: dict[str, str] | None = None, **endpoint: Any) -> Iterator[ProcessEncoder]:
    settings = {"endpoint": {"url": service.url, "model": "large", **endpoint}, **(prompts or {})}
    (source,) = model_sources(SearchSettings.model_validate(settings), may_download=False)
    with closing(ProcessEncoder(source)) as made:
        yield made


def test_is_asked_in_batches_with_its_key_and_gives_vectors_in_the_order_of_the_texts(service: Service) -> None:
    with remote(service, api_key=KEY, batch=2) as encoder:
        encoder.load()
        texts = ["read a file", "write a file", "forecast", "", "rain"]
        assert np.allclose(encoder.documents(texts)[:3], hashed(texts[:3]), atol=1e-6)
        assert np.allclose(encoder.queries(["rain"]), hashed(["rain"]), atol=1e-6)
    assert [len(asked["input"]) for _, _, asked in service.requests] == [1, 2, 2, 1, 1]
    assert {(path, key) for path, key, _ in service.requests} == {("/v1/embeddings", f"Bearer {KEY}")}
    assert service.requests[-1][2] == {"model": "large", "input": ["rain"], "encoding_format": "float"}


def test_gets_the_prompts_and_the_dimensions_of_the_settings(service: Service) -> None:
    prompts = {"query_prompt": "query: ", "document_prompt": "passage: "}
    with remote(service, prompts, dimensions=16, url=f"{service.url}/embeddings/") as encoder:
        encoder.load()
        assert encoder.documents(["read"]).shape == (1, 16)
        encoder.queries(["rain"])
    asked = [(path, body["input"], body["dimensions"]) for path, _, body in service.requests[1:]]
    assert asked == [("/v1/embeddings", ["passage: read"], 16), ("/v1/embeddings", ["query: rain"], 16)]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_moment_of_trouble_is_waited_out_for_documents(service: Service, status: int) -> None:
    with remote(service) as encoder:
        encoder.load()
        troubles = [status, status]
        service.headers["Retry-After"] = "0"
        service.answer = lambda asked: (troubles.pop(), b"busy") if troubles else embeddings(asked)
        assert np.allclose(encoder.documents(["read"]), hashed(["read"]), atol=1e-6)
        assert len(service.requests) == 4


def test_a_search_does_not_wait_it_out(service: Service) -> None:
    with remote(service) as encoder:
        encoder.load()
        service.answer = lambda asked: (500, b"broken")
        with pytest.raises(EncoderFailed) as failed:
            encoder.queries(["rain"])
        assert (failed.value.reason, failed.value.retry) == ("it answers 500: broken", "transient")
        assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("answer", "told", "again"),
    [
        ((401, b'{"error": "wrong key"}'), "it answers 401: ", "never"),
        ((404, b"no such model"), "it answers 404: no such model", "never"),
        ((307, b""), "it answers 307", "never"),
        ((200, b"<html>"), "its answer is not a list with one embedding", "limited"),
        ((200, b"[" * 100_000), "its answer is not a list with one embedding", "limited"),
        ((200, answer_of([])), "its answer is not a list with one embedding", "limited"),
        ((200, answer_of([["x"] * 32])), "its answer is not a list with one embedding", "limited"),
        ((200, answer_of([[[1.0]] * 32])), "its answer has embeddings that are not vectors", "limited"),
        ((200, answer_of([[float("nan")] * 32])), "its answer has embeddings that are not finite numbers", "limited"),
        ((200, answer_of([[1e400] * 32])), "its answer has embeddings that are not finite numbers", "limited"),
        ((200, answer_of([[1.0] * 31])), "its vectors had 32 numbers, now 31", "limited"),
    ],
    ids=["key", "model", "redirect", "html", "depth", "none", "texts", "matrix", "nan", "infinite", "size"],
)
def test_an_answer_that_can_not_be_used_is_told(
    service: Service, answer: tuple[int, bytes], told: str, again: str
) -> None:
    with remote(service) as encoder:
        encoder.load()
        assert encoder.queries(["rain"]).shape == (1, 32)
        service.answer = lambda asked: answer
        service.headers["Location"] = f"{service.url}/elsewhere"
        with pytest.raises(EncoderFailed) as failed:
            encoder.queries(["rain"])
        assert failed.value.reason.startswith(told)
        assert failed.value.retry == again
        assert len(service.requests) == 3, "and no redirect was followed, with the key in hand"


def test_other_dimensions_than_asked_for_are_told_with_the_setting(service: Service) -> None:
    service.answer = lambda asked: (200, answer_of(vectors(asked["input"])))
    with remote(service, dimensions=16) as encoder, pytest.raises(EncoderFailed) as failed:
        encoder.load()
    assert failed.value.reason == "it gives vectors of 32 numbers, not of 16"
    assert "search.endpoint.dimensions" in failed.value.remedy


def test_an_answer_that_does_not_come_is_not_waited_for(service: Service) -> None:
    with remote(service, timeout=0.5) as encoder:
        encoder.load()
        service.goes_on.clear()
        with pytest.raises(EncoderFailed) as failed:
            encoder.queries(["rain"])
        assert (failed.value.reason, failed.value.retry) == ("it did not answer within 0.5 s", "transient")


def test_an_address_where_nobody_is_is_told() -> None:
    endpoint = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    (source,) = model_sources(SearchSettings.model_validate({"endpoint": endpoint}), may_download=False)
    with (
        closing(ProcessEncoder(source)) as encoder,
        pytest.raises(EncoderFailed, match="it can't be reached") as failed,
    ):
        encoder.load()
    assert failed.value.retry == "transient"


async def test_a_service_that_goes_away_and_comes_back_costs_no_search_and_no_vector(service: Service) -> None:
    settings = {"endpoint": {"url": service.url, "model": "large"}}
    above = vector_rankers(SearchSettings.model_validate(settings))
    for level in above:
        level._pauses = (0.05,)
    levels = RankerStack(above)
    levels.index(tools(files=["read_file"], weather=["forecast"]))
    async with kept(levels):
        await until(lambda: levels.status.level == "semantic")
        before = len(service.requests)
        service.answer = lambda asked: (503, b"")
        ranking = levels.rank("forecast", 1)
        assert (ranking.level, ranking.found[0].thing.name) == ("static", "forecast")
        await until(lambda: len(service.requests) > before + 3)
        service.answer = embeddings
        await until(lambda: levels.status.level == "semantic")
        assert levels.rank("read file", 1).level == "semantic"
    asked = [text for _, _, body in service.requests[before:] for text in body["input"]]
    assert set(asked) == {"forecast", "search", "read file"}


class TestTheKey:
    FILE = "search: {endpoint: {url: 'https://me:hunter22@embed.example/v1', model: m, api_key: '${EMBED}'}}"

    def loaded(self, folder: Path) -> Any:
        (folder / "upstream.yaml").write_text(self.FILE)
        return load(folder / "upstream.yaml", environ={"EMBED": KEY})

    def test_comes_from_a_variable_and_is_shown_nowhere(self, tmp_path: Path) -> None:
        loaded = self.loaded(tmp_path)
        assert loaded.settings.search.endpoint.api_key == KEY
        assert Redactor(loaded.secrets).text(f"x {KEY} y hunter22") == f"x {MASK} y {MASK}"
        (source,) = model_sources(loaded.settings.search, may_download=False)
        for shown in (describe(loaded), repr(loaded.settings), repr(source), source.description):
            assert KEY not in shown
            assert "hunter22" not in shown
        assert "endpoint" in describe(loaded)

    @pytest.mark.parametrize("key", ["line\nbreak", "schlüssel"])
    def test_that_can_not_be_sent_is_refused_without_being_shown(self, tmp_path: Path, key: str) -> None:
        (tmp_path / "upstream.yaml").write_text(self.FILE)
        with pytest.raises(SettingsError) as failed:
            load(tmp_path / "upstream.yaml", environ={"EMBED": key})
        assert "api_key" in str(failed.value)
        assert key not in str(failed.value)
