"""Runs a model with onnxruntime and tokenizers; imported only in the encoder's process."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer, Tokenizer

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding.model_folder import ModelFolder, Pooling

Rows = NDArray[np.float32]

_BATCH_TOKENS = 512
"""Larger batches are not faster on a CPU and take hundreds of megabytes more."""
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class OnnxModel:
    """A loaded model."""

    def __init__(self, folder: ModelFolder) -> None:
        """Reads the weights.

        Raises:
            EncoderFailed: the model has inputs that are not supported.
        """
        options = onnxruntime.SessionOptions()
        # The arena never shrinks: with texts of varying length it would grow to hundreds of megabytes.
        options.enable_cpu_mem_arena = False
        options.intra_op_num_threads = min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Otherwise its threads busy-wait for a while after each query.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(folder.onnx), options, providers=["CPUExecutionProvider"])
        self._inputs = {one.name for one in self._session.get_inputs()}
        if not {"input_ids", "attention_mask"} <= self._inputs <= _INPUTS:
            raise EncoderFailed(f"the model has unsupported inputs: {', '.join(sorted(self._inputs))}")
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
        self._tokenizer = _tokenizer(folder)
        self._folder = folder
        self.name = folder.digest()

    def documents(self, texts: Sequence[str]) -> Rows:
        return self._vectors([self._folder.document_prompt + text for text in texts])

    def queries(self, texts: Sequence[str]) -> Rows:
        return self._vectors([self._folder.query_prompt + text for text in texts])

    def _vectors(self, texts: Sequence[str]) -> Rows:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        # Sorted by length, since the longest text of a batch determines its cost.
        order = sorted(range(len(texts)), key=lambda number: len(tokens[number]))
        rows: list[Rows] = []
        batch: list[list[int]] = []
        for number in order:
            if batch and (len(batch) + 1) * len(tokens[number]) > _BATCH_TOKENS:
                rows.append(self._batch(batch))
                batch = []
            batch.append(tokens[number])
        sorted_rows: Rows = np.concatenate([*rows, self._batch(batch)])
        vectors = np.empty_like(sorted_rows)
        vectors[order] = sorted_rows
        return vectors

    def _batch(self, tokens: list[list[int]]) -> Rows:
        longest = max(1, *map(len, tokens))
        ids = np.zeros((len(tokens), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(tokens):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (output,) = self._session.run([self._output], {name: inputs[name] for name in self._inputs})
        vectors = _pooled(output, mask, self._folder.pooling) if output.ndim == 3 else output
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Rows = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return unit


def _pooled(output: Rows, mask: NDArray[np.int64], pooling: Pooling) -> Rows:
    """Combines the vectors of the tokens of each text into one."""
    weights = mask[:, :, None].astype(np.float32)
    match pooling:
        case "mean":
            mean: Rows = (output * weights).sum(1) / np.maximum(weights.sum(1), 1)
            return mean
        case "max":
            highest: Rows = np.where(weights > 0, output, -np.inf).max(1)
            return highest
        case "cls":
            first: Rows = output[:, 0]
            return first
        case "last":
            last: Rows = output[np.arange(len(output)), np.maximum(mask.sum(1) - 1, 0)]
            return last


def _tokenizer(folder: ModelFolder) -> Tokenizer | BertWordPieceTokenizer:
    tokenizer: Tokenizer | BertWordPieceTokenizer
    if folder.tokenizer.suffix == ".json":
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    else:
        tokenizer = BertWordPieceTokenizer(str(folder.tokenizer), lowercase=folder.is_lowercase)
    tokenizer.no_padding()
    tokenizer.enable_truncation(folder.max_tokens)
    return tokenizer
