"""The encoder's process: started, asked one thing at a time with a limit to our patience, and ended.

Blocking, for threads. Whoever waits for it goes on at once when it is killed, by whomever. It gets nothing of our
environment but what its libraries need, it is nobody's child that a terminal's Ctrl-C reaches, and it ends by itself
when its stdin closes, so nothing is left of it when we are killed.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO, Any

from codemode_server.domain.errors import EncoderFailed
from codemode_server.processes.framing import FrameBuffer, FramingError
from codemode_server.search.encoding import frames
from codemode_server.text import clean_line

_WORKER = "codemode_server.search.encoding.worker"
_MAX_SAID = 4_000
"""Bytes of its stderr that are kept, the last ones."""
_END_SECONDS = 2.0
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
            EncoderFailed: there is no process to be had.
        """
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                # -P: nothing is imported from the current folder
                [sys.executable, "-P", "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(with_network=with_network),
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise EncoderFailed(f"its process can't be started: {error.strerror}", again="few") from error
        self._received = FrameBuffer()
        self._said = b""
        self._questions = 0
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, message: dict[str, Any], seconds: float) -> frames.Message:
        """Its answer to one question.

        Raises:
            EncoderFailed: it refuses, has ended, or takes too long; in the last two cases it can't be asked again.
        """
        self._questions += 1
        answer = self._exchanged(frames.encoded({"id": self._questions, **message}), time.monotonic() + seconds)
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
        with suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """End it and take it off the table of processes."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        assert process.stdin and process.stdout  # noqa: S101, PT018 - asked for above
        assert process.stderr  # noqa: S101
        return process.stdin, process.stdout, process.stderr

    def _exchanged(self, question: bytes, until: float) -> frames.Message | None:
        """The answer to a question; none if it does not come in time."""
        stdin, stdout, stderr = (pipe.fileno() for pipe in self._pipes)
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while (seconds := until - time.monotonic()) > 0:
                for key, _ in selector.select(seconds):
                    if key.fd == stdin:
                        question = self._written(stdin, question)
                        if not question:
                            selector.unregister(stdin)
                    elif key.fd == stderr:
                        if not self._heard(stderr):
                            selector.unregister(stderr)
                    elif (answer := self._read(stdout)) is not None:
                        return answer
        return None

    def _written(self, stdin: int, question: bytes) -> bytes:
        """What is left to write."""
        try:
            return question[os.write(stdin, question[:65_536]) :]
        except BlockingIOError:
            return question
        except OSError as error:
            raise self._ended() from error

    def _heard(self, stderr: int) -> bool:
        """Whether there may be more."""
        try:
            said = os.read(stderr, 65_536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._said = (self._said + said)[-_MAX_SAID:]
        return bool(said)

    def _read(self, stdout: int) -> frames.Message | None:
        try:
            received = os.read(stdout, 2**20)
        except BlockingIOError:
            return None
        if not received:
            raise self._ended()
        self._received.add(received)
        try:
            while answer := frames.taken(self._received):
                if answer.fields.get("id") == self._questions:
                    return answer
        except FramingError as error:
            raise EncoderFailed(f"what its process says can't be read: {error}", again="few") from error
        return None

    def _ended(self) -> EncoderFailed:
        """Why it has ended, as far as it tells."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return EncoderFailed("its process closed its end", again="few")
        self._heard(self._pipes[2].fileno())  # as much as a pipe holds
        if code < 0:
            name = signal.strsignal(-code) or f"signal {-code}"
            more = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
            return EncoderFailed(f"its process was ended from outside ({name}{more})", again="few")
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        last = f": {clean_line(lines[-1], 300)}" if lines else ""
        return EncoderFailed(f"its process ended with code {code}{last}", again="few")


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
