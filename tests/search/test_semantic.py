"""The encoder of the `semantic` ranker: which model it loads, the real model in its own process, and its cache.

The real weights of all-MiniLM-L6-v2, the real library and a real process; worker programs of the tests stand for a
process that misbehaves.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codemode_server.config import load
from codemode_server.config.settings import SearchSettings
from codemode_server.domain.errors import EncoderFailed, EncoderMissing
from codemode_server.search import encoder_worker, semantic
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.semantic import FULL, LIGHT, SemanticEncoder
from codemode_server.search.vector_ranker import diagnose, vector_rankers
from codemode_server.storage.cache import VECTORS
from tests.processes import all_gone, is_gone
from tests.search.encoders import WAIT_SECONDS, needs_light_packages, tools
from tests.search.test_ranker_stack import kept, level
from tests.storage.test_cache import cache_in
from tests.waiting import until

needs_light_packages()
pytestmark = pytest.mark.slow

TEXTS = ("filesystem: read file. Read the contents of a file", "weather: forecast. The weather of the next days")
WISHES = ("show me what is inside notes.txt", "will it rain tomorrow")


@pytest.fixture(scope="module")
def shared() -> Iterator[SemanticEncoder]:
    """One for all tests that leave it as it is."""
    with closing(SemanticEncoder(SearchSettings())) as made:
        made.load()
        yield made


@pytest.fixture
def minilm() -> Iterator[SemanticEncoder]:
    """One that can be killed."""
    with closing(SemanticEncoder(SearchSettings())) as made:
        made.load()
        yield made


class TestTheModel:
    def test_finds_what_is_meant_and_not_only_what_is_said(self, shared: SemanticEncoder) -> None:
        documents = shared.documents(TEXTS)
        assert (documents @ shared.queries(WISHES).T).argmax(axis=1).tolist() == [0, 1]
        assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-3)
        assert documents.shape == (2, 384)

    def test_runs_at_low_priority_and_gets_little_of_our_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
        monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy")
        with closing(SemanticEncoder(SearchSettings())) as made:
            made.load()
            assert made.pid is not None
            assert os.getpriority(os.PRIO_PROCESS, made.pid) > os.getpriority(os.PRIO_PROCESS, 0)
            try:
                environment = Path(f"/proc/{made.pid}/environ").read_bytes()
            except OSError:
                pytest.skip("this system does not show a process's environment")
            assert b"HF_HUB_OFFLINE=1" in environment
            assert b"GITHUB_TOKEN" not in environment
            assert b"PROXY" not in environment

    def test_loads_only_the_very_file_that_is_expected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        package, name, sha256 = encoder_worker._WEIGHTS
        monkeypatch.setattr(encoder_worker, "_WEIGHTS", (package, name, sha256[::-1]))
        with pytest.raises(ValueError, match="are not the expected file"):
            encoder_worker.LightModel()


class TestWhichModelIsLoaded:
    @pytest.fixture
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        return lambda *packages: monkeypatch.setattr(semantic, "_is_installed", packages.__contains__)

    def refusal(self, **settings: Any) -> EncoderFailed:
        with closing(SemanticEncoder(SearchSettings(**settings))) as made, pytest.raises(EncoderFailed) as failed:
            made.load()
        assert not failed.value.may_retry
        return failed.value

    def test_is_missing_without_packages_which_is_a_failure_only_if_it_was_asked_for(
        self, installed: Callable[..., None]
    ) -> None:
        installed("onnxruntime", "tokenizers")
        missing = self.refusal()
        assert isinstance(missing, EncoderMissing)
        assert str(missing) == f"no package for it is installed; {LIGHT}"
        assert not isinstance(self.refusal(ranker="semantic"), EncoderMissing)
        assert self.refusal(model="BAAI/bge").remedy == FULL

    def test_is_a_folder_relative_to_the_configuration_file(self, tmp_path: Path) -> None:
        (tmp_path / "upstream.yaml").write_text("search: {model: ./models/mine}")
        model = load(tmp_path / "upstream.yaml", environ={}).settings.search.model
        assert model == str(tmp_path / "models" / "mine")
        assert self.refusal(model=model).reason == f"there is no folder {model!r}"

    @pytest.mark.parametrize(("ranker", "may_download"), [("auto", False), ("semantic", True)])
    def test_is_downloaded_only_if_the_settings_ask_for_it(
        self, ranker: Any, may_download: bool, installed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed("sentence_transformers")
        started: list[bool] = []
        requests: list[dict[str, object]] = []

        class Worker:
            pid = 0

            def __init__(self, *, has_network: bool) -> None:
                started.append(has_network)

            def ask(self, request: dict[str, object], seconds: float) -> dict[str, Any]:
                requests.append(request)
                return {"name": "n"}

            def kill(self) -> None: ...
            def close(self) -> None: ...

        monkeypatch.setattr(semantic, "_Worker", Worker)
        SemanticEncoder(SearchSettings(ranker=ranker)).load()
        SemanticEncoder(SearchSettings(ranker=ranker), may_download=False).load()
        assert [(request["model"], request["may_download"]) for request in requests] == [
            ("sentence-transformers/all-MiniLM-L6-v2", may_download),
            ("sentence-transformers/all-MiniLM-L6-v2", False),
        ]
        assert started == [may_download, False]

    def test_is_named_by_status_and_doctor_with_the_reason_why_it_is_not_used(
        self, installed: Callable[..., None]
    ) -> None:
        assert (diagnose(SearchSettings(ranker="lexical")).text) == "lexical, by words"
        assert (diagnose(SearchSettings(ranker="static")).text) == "static, by words and static table"
        assert (diagnose(SearchSettings()).text) == "semantic, by words and all-MiniLM-L6-v2 (onnxruntime)"
        installed()
        for ranker, is_met in (("auto", True), ("semantic", False)):
            found = diagnose(SearchSettings.model_validate({"ranker": ranker}))
            why = f"no package for it is installed; {LIGHT}"
            assert found.text == f"static, by words and static table, since there is no better: {why}"
            assert found.is_met is is_met


class TestTheProcess:
    def test_that_is_closed_ends_what_waits_for_it_in_another_thread(self, minilm: SemanticEncoder) -> None:
        pid = minilm.pid
        assert pid is not None
        failures: list[EncoderFailed] = []
        os.kill(pid, signal.SIGSTOP)

        def ask() -> None:
            try:
                minilm.documents(TEXTS)
            except EncoderFailed as error:
                failures.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        minilm.close()
        thread.join(WAIT_SECONDS)
        assert len(failures) == 1
        assert pid is not None
        assert is_gone(pid)
        with pytest.raises(EncoderFailed):
            minilm.load()

    @pytest.mark.parametrize(
        ("program", "reason"),
        [
            ("import sys; sys.exit('there is no room left')", "ended with code 1: there is no room left"),
            ("import os; os.abort()", "was killed"),
            ("import time; time.sleep(60)", "did not answer within"),
        ],
        ids=["exit", "abort", "silence"],
    )
    def test_that_is_another_program_is_reported_and_gone(
        self, program: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "stranger.py").write_text(program)
        monkeypatch.setattr(semantic, "_WORKER", "stranger")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(semantic, "_LOAD_SECONDS", 5.0 if "within" in reason else 60.0)
        with closing(SemanticEncoder(SearchSettings())) as made:
            with pytest.raises(EncoderFailed) as failed:
                made.load()
            assert reason in failed.value.reason
            assert failed.value.may_retry
            assert made.pid is None


class TestTheCache:
    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The texts that the process is asked for."""
        found: list[str] = []
        ask = semantic._Worker.ask

        def recorded(worker: Any, request: dict[str, Any], seconds: float) -> dict[str, Any]:
            found.extend(request.get("texts", ()))
            return ask(worker, request, seconds)

        monkeypatch.setattr(semantic._Worker, "ask", recorded)
        return found

    def test_has_each_text_encoded_once_in_this_run_and_the_next(self, tmp_path: Path, asked: list[str]) -> None:
        texts = ["read a file", "write", "read a file", "", "forecast of the weather"]
        with cache_in(tmp_path, VECTORS) as store, closing(SemanticEncoder(SearchSettings(), store)) as one:
            one.load()
            first = one.documents(texts)
            assert sorted(asked) == sorted(set(texts))
        with cache_in(tmp_path, VECTORS) as store, closing(SemanticEncoder(SearchSettings(), store)) as other:
            other.load()
            again = other.documents(texts[::-1])
            assert len(asked) == 4, "the next run asks for none"
            assert (first == again[::-1]).all(), "to the last bit, so that a restart changes no ranking"


async def test_a_search_while_the_model_is_killed_is_answered_by_the_level_below_and_the_model_comes_back() -> None:
    above = vector_rankers(SearchSettings())
    for ranker in above:
        ranker._pauses = (0.0,)
    levels = RankerStack(above)
    levels.index(tools(files=["read_file", "write_file"], weather=["forecast"]))
    async with kept(levels):
        await until(lambda: level(levels) == "semantic")
        assert levels.rank("will it rain tomorrow", 1).found[0].thing.name == "forecast"
        encoder: Any = above[1]._encoder
        os.kill(encoder.pid, signal.SIGKILL)
        ranking = levels.rank("show the forecast", 1)
        assert (ranking.level, ranking.found[0].thing.name) == ("static", "forecast")
        await until(lambda: level(levels) == "semantic")
        assert levels.rank("what will the sky be like", 1).level == "semantic"
        pid = encoder.pid
    await all_gone(pid, within_s=WAIT_SECONDS)
