"""The encoder's process: what it is started with, what it is asked, and why it failed.

Blocking, for threads: an `ask` fails at once when the process is killed. The process gets only those variables of our
environment that its libraries need, and exits when its stdin closes, so nothing is left of it when we are killed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from codemode_server.domain.errors import EncoderFailed
from codemode_server.processes.blocking_child import BlockingChild, ChildEnded
from codemode_server.processes.framing import FrameBuffer, FramingError
from codemode_server.search.encoding import frames
from codemode_server.text import clean_line

_WORKER = "codemode_server.search.encoding.worker"
_PASSED = (
    *("HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "XDG_CACHE_HOME", "PYTHONPATH", "PYTHONHOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "SYSTEMROOT"),
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "TORCH_HOME"),
)
_PASSED_WITH_NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HF_TOKEN", "HF_TOKEN_PATH"),
    "HF_ENDPOINT",
)


class WorkerProcess:
    """One process, from its start to its end. `kill` is safe in any thread; all else is for one at a time."""

    def __init__(self, *, with_network: bool = False) -> None:
        """Start it.

        Raises:
            EncoderFailed: it can't be started.
        """
        # -P: nothing is imported from the current folder
        command = [sys.executable, "-P", "-m", _WORKER]
        try:
            self._child = BlockingChild(command, _environment(with_network=with_network))
        except OSError as error:
            raise EncoderFailed(f"its process can't be started: {error.strerror}", again="few") from error
        self._received = FrameBuffer()
        self._questions = 0

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, question: dict[str, Any], seconds: float) -> frames.Message:
        """Its answer to one question.

        Raises:
            EncoderFailed: it refuses, has ended, or takes too long; in the last two cases it can't be asked again.
        """
        self._questions += 1
        data = frames.encoded({"id": self._questions, **question})
        try:
            answer = self._child.exchange(data, self._read, seconds)
        except ChildEnded as ended:
            raise EncoderFailed(_why_ended(ended), again="few") from ended
        except FramingError as error:
            raise EncoderFailed(f"what its process says can't be read: {error}", again="few") from error
        if answer is None:
            raise EncoderFailed(f"its process did not answer within {seconds:g} s", again="few")
        refusal = answer.fields.get("refused")
        if isinstance(refusal, dict):
            reason, remedy, again = (str(refusal.get(key, "")) for key in ("reason", "remedy", "again"))
            raise EncoderFailed(
                clean_line(reason, 400),
                clean_line(remedy, 400),
                again="whenever" if again == "whenever" else "few" if again == "few" else "never",
            )
        return answer

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        """End it and wait for it."""
        self._child.close()

    def _read(self, received: bytes) -> frames.Message | None:
        self._received.add(received)
        while answer := frames.taken(self._received):
            if answer.fields.get("id") == self._questions:
                return answer
        return None


def _why_ended(ended: ChildEnded) -> str:
    code = ended.code
    if code is None:
        return "its process closed its end"
    if code < 0:
        name = signal.strsignal(-code) or f"signal {-code}"
        more = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
        return f"its process was ended from outside ({name}{more})"
    lines = ended.stderr.splitlines()
    return f"its process ended with code {code}" + (f": {clean_line(lines[-1], 300)}" if lines else "")


def _environment(*, with_network: bool) -> dict[str, str]:
    passed = (*_PASSED, *(_PASSED_WITH_NETWORK if with_network else ()))
    threads = str(min(2, os.cpu_count() or 1))
    return {
        **{name: os.environ[name] for name in passed if name in os.environ},
        **({} if with_network else {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime looks up its maker's host otherwise
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
    }
