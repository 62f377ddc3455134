"""Starts, asks and ends the encoder's process, and explains its failures.

Blocking, for threads: `ask` fails at once when the process is killed. The process gets only the environment variables
that its libraries need, and exits when its stdin closes, so it never outlives the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Any

from codemode_server.domain.errors import EncoderFailed
from codemode_server.processes.child_process import OutputTail, kill_group, start_blocking
from codemode_server.processes.framing import FrameBuffer, FramingError
from codemode_server.search.encoding import frames
from codemode_server.text import clean_line

_END_SECONDS = 2.0
_MAX_STDERR_BYTES = 4_000
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
    """One process. `kill` is thread-safe; everything else is for one thread at a time."""

    def __init__(self, *, with_network: bool = False) -> None:
        """Starts the process.

        Raises:
            EncoderFailed: it can't be started.
        """
        # -P: nothing is imported from the current folder
        command = [sys.executable, "-P", "-m", _WORKER]
        try:
            self._process = start_blocking(command, env=_environment(with_network=with_network))
        except OSError as error:
            raise EncoderFailed(f"its process can't be started: {error.strerror}", retry="limited") from error
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin and stdout and stderr  # noqa: S101, PT018 - it was started with them
        self._stdin, self._stdout = stdin, stdout
        self._received = FrameBuffer()
        self._stderr = OutputTail()
        self._stderr_reader = threading.Thread(target=self._read_stderr, args=(stderr,), daemon=True)
        self._stderr_reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: dict[str, Any], seconds: float) -> frames.Message:
        """The answer to one question. After any failure the process must not be asked again.

        Raises:
            EncoderFailed: it refuses, has ended, or takes too long.
        """
        until = time.monotonic() + seconds
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        try:
            answer = self._exchange(frames.encode(question))
        except FramingError as error:
            raise EncoderFailed(f"its process sent an invalid message: {error}", retry="limited") from error
        finally:
            timer.cancel()
        if answer is None:
            why = f"its process did not answer within {seconds:g} s" if time.monotonic() >= until else self._why_ended()
            raise EncoderFailed(why, retry="limited")
        refusal = answer.fields.get("refused")
        if isinstance(refusal, dict):
            reason, remedy, retry = (str(refusal.get(key, "")) for key in ("reason", "remedy", "retry"))
            raise EncoderFailed(
                clean_line(reason, 400),
                clean_line(remedy, 400),
                retry="transient" if retry == "transient" else "limited" if retry == "limited" else "never",
            )
        return answer

    def kill(self) -> None:
        """Kills the process group, so that nothing holds its pipes open."""
        if self._process.poll() is None:
            kill_group(self._process)

    def close(self) -> None:
        """Ends the process, waits for it and closes its pipes."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._stdin.close()
        self._stdout.close()

    def _exchange(self, data: bytes) -> frames.Message | None:
        """Sends the data and waits for an answer; None if the process ends first."""
        with suppress(OSError):
            while data:
                data = data[self._stdin.write(data) :]
            while received := self._stdout.read(2**20):
                self._received.add(received)
                if answer := frames.take(self._received):
                    return answer
        return None

    def _read_stderr(self, stderr: IO[bytes]) -> None:
        with stderr:
            while received := stderr.read(65_536):
                self._stderr.add(received, _MAX_STDERR_BYTES)

    def _why_ended(self) -> str:
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "its process closed its end"
        if code < 0 and sys.platform != "win32":
            name = signal.strsignal(-code) or f"signal {-code}"
            more = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
            return f"its process was killed ({name}{more})"
        self._stderr_reader.join(_END_SECONDS)
        lines = self._stderr.text.splitlines()
        return f"its process ended with code {code}" + (f": {clean_line(lines[-1], 300)}" if lines else "")


def _environment(*, with_network: bool) -> dict[str, str]:
    passed = (*_PASSED, *(_PASSED_WITH_NETWORK if with_network else ()))
    threads = str(min(2, os.cpu_count() or 1))
    return {
        **{name: os.environ[name] for name in passed if name in os.environ},
        **({} if with_network else {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "ORT_DISABLE_TELEMETRY": "1",  # otherwise onnxruntime contacts its vendor
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
    }
