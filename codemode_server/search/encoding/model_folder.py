"""Reads the configuration of a model from its folder, in the format of sentence-transformers and the hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codemode_server.domain.errors import EncoderFailed

Pooling = Literal["mean", "cls", "max", "last"]

MAX_TOKENS = 512
"""Limit for each text, also if the model reads more: the purpose comes first, and the cost grows quadratically."""
_MAX_JSON_BYTES = 2**20
_ONNX = (
    *("model.onnx", "onnx/model.onnx"),
    *("onnx/model_quantized.onnx", "onnx/model_int8.onnx", "onnx/model_uint8.onnx", "onnx/model_O2.onnx"),
)
_POOLING: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_QUERY_PROMPTS = ("query",)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model that onnxruntime can run, with its settings."""

    onnx: Path
    tokenizer: Path
    """`tokenizer.json`, or else `vocab.txt` with the word pieces of BERT."""
    is_lowercase: bool
    """With `vocab.txt`: whether texts are converted to lower case."""
    pooling: Pooling
    max_tokens: int
    query_prompt: str
    document_prompt: str

    def digest(self) -> str:
        """A digest of everything that the vectors depend on."""
        digest = hashlib.sha256()
        for path in (self.onnx, self.tokenizer):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        how = [self.is_lowercase, self.pooling, self.max_tokens, self.query_prompt, self.document_prompt]
        digest.update(json.dumps(how).encode())
        return digest.hexdigest()[:16]


def find_onnx(folder: Path) -> Path | None:
    """The ONNX file in a folder, if there is one."""
    found = next((folder / name for name in _ONNX if (folder / name).is_file()), None)
    return found or next(iter(sorted((folder / "onnx").glob("model*.onnx"))), None)


def find_tokenizer(folder: Path) -> Path | None:
    return next((folder / name for name in ("tokenizer.json", "vocab.txt") if (folder / name).is_file()), None)


def has_torch_weights(folder: Path) -> bool:
    """Whether a folder has files that sentence-transformers reads weights from, by their names."""
    return any(
        any(folder.glob(pattern))
        for pattern in ("*.safetensors", "*/*.safetensors", "pytorch_model*.bin", "*/pytorch_model*.bin")
    )


def read(folder: Path, onnx: Path | None, query_prompt: str | None, document_prompt: str | None) -> ModelFolder:
    """Reads the configuration. `onnx` overrides the model file; prompts that are not None override the folder's own.

    Raises:
        EncoderFailed: something is missing, or is not supported with onnxruntime.
    """
    onnx = onnx or find_onnx(folder)
    tokenizer = find_tokenizer(folder)
    if onnx is None or tokenizer is None:
        missing = "model.onnx" if onnx is None else "tokenizer.json"
        raise EncoderFailed(f"the model folder {str(folder)!r} has no {missing}")
    own = _prompts(folder)
    return ModelFolder(
        onnx,
        tokenizer,
        is_lowercase=_object(folder / "tokenizer_config.json").get("do_lower_case") is not False,
        pooling=_pooling(folder),
        max_tokens=_max_tokens(folder),
        query_prompt=_first(own, _QUERY_PROMPTS) if query_prompt is None else query_prompt,
        document_prompt=_first(own, _DOCUMENT_PROMPTS) if document_prompt is None else document_prompt,
    )


def _pooling(folder: Path) -> Pooling:
    modules = _json(folder / "modules.json")
    where = folder / "1_Pooling"
    for module in modules if isinstance(modules, list) else ():
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind not in _KNOWN_MODULES:
            raise EncoderFailed(f"the model has a module {kind!r}, which only sentence-transformers supports")
        if kind == "Pooling":
            where = folder / str(module.get("path", "1_Pooling"))
    settings = _object(where / "config.json")
    if isinstance(mode := settings.get("pooling_mode"), str):  # as newer versions write it
        settings = {
            f"pooling_mode_{mode}": True,
            f"pooling_mode_{mode}_token": True,
            f"pooling_mode_{mode}_tokens": True,
        }
    chosen = [pooling for name, pooling in _POOLING.items() if settings.get(name) is True]
    if not settings:
        return "mean"
    if len(chosen) != 1:
        raise EncoderFailed("the model uses a pooling that only sentence-transformers supports")
    return chosen[0]


def _max_tokens(folder: Path) -> int:
    for name, key in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        most = _object(folder / name).get(key)
        if isinstance(most, int) and not isinstance(most, bool) and most >= 8:
            return min(most, MAX_TOKENS)
    return MAX_TOKENS


def _prompts(folder: Path) -> dict[str, str]:
    settings = _object(folder / "config_sentence_transformers.json")
    prompts = settings.get("prompts")
    known = (
        {str(name): text for name, text in prompts.items() if isinstance(text, str)}
        if isinstance(prompts, dict)
        else {}
    )
    default = known.get(str(settings.get("default_prompt_name")), "")
    return {"": default} | {name: text for name, text in known.items() if text}


def _first(prompts: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((prompts[name] for name in names if name in prompts), prompts.get("", ""))


def _object(path: Path) -> dict[str, Any]:
    found = _json(path)
    return found if isinstance(found, dict) else {}


def _json(path: Path) -> Any:
    """The content of a JSON file; None if it does not exist."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JSON_BYTES)
        return json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderFailed(f"{str(path)!r} can't be read: {type(error).__name__}") from error
