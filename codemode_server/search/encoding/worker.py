"""The program of the encoder's process: loads one model and encodes texts on requests over stdin.

It runs at low priority, is the first to be killed when memory runs out, and exits when its stdin closes. Stdout carries
frames only; output of libraries goes to stderr.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from codemode_server.domain.errors import EncoderFailed
from codemode_server.processes.framing import FrameBuffer
from codemode_server.search.encoding import frames

_NICE = 5


class _Model(Protocol):
    name: str

    def documents(self, texts: Sequence[str]) -> Any: ...

    def queries(self, texts: Sequence[str]) -> Any: ...


def main() -> None:
    answers = _own_stdout()
    if sys.platform != "win32":
        with suppress(OSError):
            os.nice(_NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    questions: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    model: _Model | None = None
    while True:
        question = questions.get()
        try:
            if question["do"] == "load":
                model = _loaded(question["source"])
                answer = frames.encode({"name": model.name})
            else:
                assert model is not None  # noqa: S101 - it is loaded first
                encode = model.queries if question["do"] == "queries" else model.documents
                vectors = encode(question["texts"])
                answer = frames.encode({"shape": list(vectors.shape)}, vectors.astype("float32").tobytes())
        except EncoderFailed as error:
            answer = _refusal(error.reason, error.remedy, error.retry)
        except MemoryError:
            answer = _refusal("there is not enough memory", retry="limited")
        except Exception as error:  # noqa: BLE001 - libraries raise anything; the caller decides what follows
            answer = _refusal(f"{type(error).__name__}: {error}"[:2_000])
        answers.write(answer)
        answers.flush()


def _own_stdout() -> Any:
    """The stdout pipe for frames; redirects all other output to stderr."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _read(questions: SimpleQueue[dict[str, Any]]) -> None:
    """Runs in a separate thread, so that the end of stdin ends the process during any other work."""
    buffer = FrameBuffer()
    try:
        while received := os.read(0, 2**16):
            buffer.add(received)
            while question := frames.take(buffer):
                questions.put(question.fields)
    finally:
        os._exit(0)


def _loaded(source: dict[str, Any]) -> _Model:
    for path, sha256 in source.get("pinned", {}).items():
        _check(Path(path), sha256)
    try:
        return _model(source)
    except ImportError as error:
        raise EncoderFailed(f"a package can't be used: {error}") from error


def _model(source: dict[str, Any]) -> _Model:
    match source["kind"]:
        case "onnx":
            from codemode_server.search.encoding.model_folder import read
            from codemode_server.search.encoding.onnx_model import OnnxModel

            onnx = Path(source["onnx"]) if source.get("onnx") else None
            return OnnxModel(read(Path(source["folder"]), onnx, source["query_prompt"], source["document_prompt"]))
        case "sentence-transformers":
            from codemode_server.search.encoding.torch_model import TorchModel

            prompts = (source["query_prompt"], source["document_prompt"])
            return TorchModel(source["model"], *prompts, may_download=source["may_download"])
        case _:
            from codemode_server.search.encoding.endpoint import Endpoint

            return Endpoint(source)


def _check(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EncoderFailed(f"{str(path)!r} can't be read: {error.strerror}") from error
    if found != sha256:
        raise EncoderFailed(f"{str(path)!r} is not the expected file: its SHA-256 differs")


def _refusal(reason: str, remedy: str = "", retry: str = "never") -> bytes:
    return frames.encode({"refused": {"reason": reason, "remedy": remedy, "retry": retry}})


if __name__ == "__main__":
    main()
