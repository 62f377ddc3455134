"""Runs a model with sentence-transformers and torch; imported only in the encoder's process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.encoding.model_folder import MAX_TOKENS

Rows = NDArray[np.float32]

_AT_ONCE = 8
_MAX_DIGESTED_BYTES = 2**30


class TorchModel:
    """A loaded model."""

    def __init__(
        self, model: str, query_prompt: str | None, document_prompt: str | None, *, may_download: bool
    ) -> None:
        """Loads a folder or, with `may_download`, a model of the hub."""
        import torch
        from sentence_transformers import SentenceTransformer

        # On a busy machine threads wait for each other: a query took 31 ms with one thread, 340 ms with two.
        torch.set_num_threads(1)
        self._model: Any = SentenceTransformer(
            model, device="cpu", local_files_only=not may_download, trust_remote_code=False
        )
        most = self._model.max_seq_length
        self._model.max_seq_length = min(most or MAX_TOKENS, MAX_TOKENS)
        self._query_prompt = query_prompt
        self._document_prompt = document_prompt
        prompts = [query_prompt, document_prompt, self._model.prompts, self._model.max_seq_length]
        weights = _digest(Path(model)) if Path(model).is_dir() else model
        self.name = hashlib.sha256(repr((weights, prompts)).encode()).hexdigest()[:16]

    def documents(self, texts: Sequence[str]) -> Rows:
        return self._vectors(self._model.encode_document, texts, self._document_prompt)

    def queries(self, texts: Sequence[str]) -> Rows:
        return self._vectors(self._model.encode_query, texts, self._query_prompt)

    def _vectors(self, encode: Any, texts: Sequence[str], prompt: str | None) -> Rows:
        given = {} if prompt is None else {"prompt": prompt}
        vectors = encode(list(texts), batch_size=_AT_ONCE, show_progress_bar=False, normalize_embeddings=True, **given)
        return np.asarray(vectors, np.float32)


def _digest(folder: Path) -> str:
    """A digest of the files; beyond a gigabyte in total, of their sizes only."""
    digest = hashlib.sha256()
    left = _MAX_DIGESTED_BYTES
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".txt", ".safetensors", ".bin", ".model"):
            size = path.stat().st_size
            digest.update(f"{path.relative_to(folder)} {size}".encode())
            if size <= left:
                left -= size
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
