"""The encoder's process: loads one model and turns texts into vectors, as it is asked over stdin.

Lower in priority than what people wait for, first in line when memory runs out, and gone as soon as nobody holds the
other end of its stdin. Stdout is for frames alone: what libraries print goes to stderr.
"""

from __future__ import annotations

import hashlib
import os
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
                model = _loaded(question["way"])
                answer = frames.encoded({"name": model.name})
            else:
                assert model is not None  # noqa: S101 - it is loaded first
                encode = model.queries if question["do"] == "queries" else model.documents
                vectors = encode(question["texts"])
                answer = frames.encoded({"shape": list(vectors.shape)}, vectors.astype("float32").tobytes())
        except EncoderFailed as error:
            answer = _refusal(error.reason, error.remedy, error.again)
        except MemoryError:
            answer = _refusal("there is not enough memory", again="few")
        except Exception as error:  # noqa: BLE001 - whatever a library raises: the other end says what follows from it
            answer = _refusal(f"{type(error).__name__}: {error}"[:2_000])
        answers.write(answer)
        answers.flush()


def _own_stdout() -> Any:
    """The pipe to the other end; whoever else writes to stdout from now on writes to stderr."""
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return own


def _read(questions: SimpleQueue[dict[str, Any]]) -> None:
    """In a thread of its own, so that the end of stdin is the end of whatever goes on."""
    buffer = FrameBuffer()
    try:
        while received := os.read(0, 2**16):
            buffer.add(received)
            while question := frames.taken(buffer):
                questions.put(question.fields)
    finally:
        os._exit(0)


def _loaded(way: dict[str, Any]) -> _Model:
    for path, sha256 in way.get("pinned", {}).items():
        _check(Path(path), sha256)
    try:
        return _model(way)
    except ImportError as error:
        raise EncoderFailed(f"a package can't be used: {error}") from error


def _model(way: dict[str, Any]) -> _Model:
    match way["kind"]:
        case "onnx":
            from codemode_server.search.encoding.model_folder import read
            from codemode_server.search.encoding.onnx_model import OnnxModel

            onnx = Path(way["onnx"]) if way.get("onnx") else None
            return OnnxModel(read(Path(way["folder"]), onnx, way["query_prompt"], way["document_prompt"]))
        case "sentence-transformers":
            from codemode_server.search.encoding.torch_model import TorchModel

            prompts = (way["query_prompt"], way["document_prompt"])
            return TorchModel(way["model"], *prompts, may_download=way["may_download"])
        case _:
            from codemode_server.search.encoding.endpoint import Endpoint

            return Endpoint(way)


def _check(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EncoderFailed(f"{str(path)!r} can't be read: {error.strerror}") from error
    if found != sha256:
        raise EncoderFailed(f"{str(path)!r} is not the file that it should be: its SHA-256 is another one")


def _refusal(reason: str, remedy: str = "", again: str = "never") -> bytes:
    return frames.encoded({"refused": {"reason": reason, "remedy": remedy, "again": again}})


if __name__ == "__main__":
    main()
