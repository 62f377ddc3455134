"""Runs in a process of its own, which owns an instance of the component; the host ends a program by killing it.

    python -I -B worker.py serve <folder with wasmtime> <native code>
    python -I -B worker.py compile <folder with wasmtime> <component> <native code>

It forwards frames without parsing them: from stdin to the guest, from the guest to stdout. It holds back that of a new
line, which the host needs only of a program that runs on. An empty frame is a signal between host and worker, which no
guest can send. The host's first signal means "make an instance", with its settings in the next frame, the second "its
program follows", and a third in place of that program "end this instance, another one follows". The worker sends one
when it is ready, one when the instance waits for its program, and one when the program has ended. It imports nothing of
codemode_server, gets no environment, and writes the reason for a failure to stderr.
"""

from __future__ import annotations

import json
import os
import queue
import select
import struct
import sys
import threading
import time
from typing import Any

sys.path.append(sys.argv[2])
import wasmtime
from wasmtime import component

EXIT_TRAPPED = 4
EXIT_OUT_OF_MEMORY = 5
_WASM_STACK = 2 * 2**20  # the maximum that wasmtime accepts
_THREAD_STACK = 16 * 2**20
_OPEN_FILES = 256
_READ = 2**18
_FRAME_COPIES = 8
"""Memory of a frame on its way, in sizes of its UTF-8: as bytes and as a text, which one emoji makes four times as
long."""
_DEEP = "call stack exhausted"
_LINE, _CALL, _DONE = '{"op":"line"', '{"op":"call"', '{"op":"done"'
_LINE_SECONDS = 0.02


def engine() -> wasmtime.Engine:
    """The engine for compiling and for running, since native code works only with the same settings."""
    config = wasmtime.Config()
    config.wasm_component_model = True
    config.max_wasm_stack = _WASM_STACK
    return wasmtime.Engine(config)


def compile_component(source: str, target: str) -> None:
    """Write the component's native code for this machine, atomically. This process finishes even if the product ends
    meanwhile, so the next product does not compile again."""
    import lzma  # only here: each worker's start would wait for it

    with lzma.open(source) if source.endswith(".xz") else open(source, "rb") as packed:  # noqa: PTH123
        made = component.Component(engine(), packed.read()).serialize()
    unfinished = os.path.join(os.path.dirname(target), f"compiling-{os.getpid()}")  # noqa: PTH118, PTH120
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())  # else a power cut could leave a torn file of that name, which nothing would replace
    os.replace(unfinished, target)  # noqa: PTH105


class _NotWanted(Exception):
    """Raised within an instance that got no program, since the next one has other limits or folders."""


class _Pipe:
    """Frames on stdin and stdout. When the host dies, the process ends at once, even while a program computes."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._line = ""
        """The frame of the last new line of the program, of which the host learns only if it runs for a moment."""
        self._has_line = threading.Event()
        threading.Thread(target=self._send_lines, daemon=True).start()
        self._buffer = bytearray()
        self._chunks: queue.SimpleQueue[bytes] | None = None
        if hasattr(select, "poll"):
            threading.Thread(target=_end_with_the_host, daemon=True).start()
        else:
            self._chunks = queue.SimpleQueue()
            threading.Thread(target=self._read_ahead, args=(self._chunks,), daemon=True).start()

    def send(self, frame: str) -> None:
        with self._writing:
            if frame.startswith(_LINE):
                self._line = frame
                self._has_line.set()
                return
            if self._line and not frame.startswith((_CALL, _DONE)):  # what may end it for a limit, at this line
                self.write(self._line)
            if not frame.startswith(_CALL):  # nothing may follow 'done'
                self._line = ""
            self.write(frame)

    def end(self) -> None:
        """Signal that the program has ended; nothing of it may reach the host after that, where the next one runs."""
        with self._writing:
            self._line = ""
            self.write("")

    def _send_lines(self) -> None:
        while self._has_line.wait():
            time.sleep(_LINE_SECONDS)
            with self._writing:
                self._has_line.clear()
                if self._line:
                    self.write(self._line)
                    self._line = ""

    def write(self, text: str) -> None:
        data = text.encode()
        del text
        header = struct.pack(">I", len(data))
        # Large data apart, since joining them would copy it.
        for piece in (header + data,) if len(data) < _READ else (header, data):
            left = memoryview(piece)
            while left:
                left = left[os.write(1, left) :]

    def read(self, timeout_s: float | None) -> str | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if len(self._buffer) >= 4:
                end = 4 + int.from_bytes(self._buffer[:4], "big")
                if len(self._buffer) >= end:
                    with memoryview(self._buffer) as view:
                        frame = str(view[4:end], "utf-8")
                    del self._buffer[:end]
                    return frame
            chunk = self._more(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if chunk is None:
                return None
            self._buffer += chunk

    def _more(self, timeout_s: float | None) -> bytes | None:
        if self._chunks is not None:
            try:
                return self._chunks.get(timeout=timeout_s)
            except queue.Empty:
                return None
        if timeout_s is not None and not select.select([0], [], [], timeout_s)[0]:
            return None
        chunk = os.read(0, _READ)
        if not chunk:
            os._exit(0)
        return chunk

    @staticmethod
    def _read_ahead(chunks: queue.SimpleQueue[bytes]) -> None:
        """Read all the time, in a thread, where `poll` is missing and only reading notices that stdin was closed."""
        while chunk := os.read(0, _READ):
            chunks.put(chunk)
        os._exit(0)

    def next_program(self) -> dict[str, Any]:
        """The settings for the next program; frames for the last one are skipped."""
        while self.read(None):
            pass
        settings: dict[str, Any] = json.loads(self.read(None) or "{}")
        return settings


def _end_with_the_host() -> None:
    if sys.platform == "win32":
        raise NotImplementedError  # for the type checker
    poll = select.poll()
    poll.register(0, 0)  # a hang-up is always reported
    poll.poll()
    os._exit(0)


def serve(native_code: str) -> None:
    """Run programs, each in an instance of its own, until the host closes stdin."""
    shared = engine()
    try:
        code = component.Component.deserialize_file(shared, native_code)
    except wasmtime.WasmtimeError as error:
        _give_up(EXIT_TRAPPED, f"{native_code} is no native code of the sandbox, remove it: {error}")
    pipe = _Pipe()

    def send(_: wasmtime.Store, frame: str) -> None:
        if frame:  # an empty one is a signal of the worker
            pipe.send(frame)

    def receive(_: wasmtime.Store, timeout_us: int) -> str | None:
        frame = pipe.read(None if timeout_us < 0 else timeout_us / 1_000_000)
        if frame == "":
            pipe.write("")
            frame = pipe.read(None)
            if frame == "":
                raise _NotWanted
        return frame

    linker = component.Linker(shared)
    linker.add_wasip2()
    with linker.root() as root:
        root.add_func("send", send)
        root.add_func("receive", receive)
    pipe.write("")
    while True:
        settings = pipe.next_program()
        _limit(settings)
        try:
            _run_one(pipe, shared, linker, code, settings)
        except _NotWanted:
            continue
        except (wasmtime.Trap, wasmtime.WasmtimeError, wasmtime.ExitTrap) as error:
            _give_up(EXIT_TRAPPED, _reason(str(error)))
        except MemoryError:
            _give_up(EXIT_OUT_OF_MEMORY, "a frame takes more memory than the process may have")


def _run_one(
    pipe: _Pipe,
    shared: wasmtime.Engine,
    linker: component.Linker,
    code: component.Component,
    settings: dict[str, Any],
) -> None:
    store = wasmtime.Store(shared)
    store.set_limits(memory_size=settings["memory_bytes"])
    world = wasmtime.WasiConfig()
    for guest_path, host_path in settings["folders"].items():
        world.preopen_dir(host_path, guest_path, guest_path not in settings["read_only"])
    store.set_wasi(world)
    try:
        run = linker.instantiate(store, code).get_func(store, "run")
        assert run is not None  # noqa: S101 - the component is ours
        run(store)
        pipe.end()  # before the memory of the instance is freed, which takes time
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        # A failed allocation that cannot raise MemoryError leads to an arbitrary trap.
        if _DEEP not in str(error) and _memory("RssAnon:") > 0.75 * settings["memory_bytes"]:
            _give_up(EXIT_OUT_OF_MEMORY, "the interpreter had no memory left to say so")
        raise
    finally:
        store.close()


def _memory(kind: str) -> int:
    """Memory of this kind in use, or 0 where /proc does not say; while the instance exists, most is the program's."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(kind)), 0)
    except OSError:
        return 0


def _reason(trap: str) -> str:
    if _DEEP in trap:
        return "the program's calls are nested too deeply (endless recursion?)"
    last = trap.strip().splitlines()[-1] if trap.strip() else "no reason given"
    return f"the interpreter stopped: {last.strip()[:300]}"


def _limit(settings: dict[str, Any]) -> None:
    """Limit the files and the memory of the process to what a program may need, with the copies of its frames."""
    if sys.platform == "win32":
        return
    import resource

    file_bytes, used = settings["file_bytes"], _memory("VmData:")
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_NOFILE, _OPEN_FILES)]
    if used:
        most = used + settings["memory_bytes"] + _FRAME_COPIES * settings["frame_bytes"]
        limits.append((resource.RLIMIT_DATA, most))
    for limit, value in limits:
        _, hard = resource.getrlimit(limit)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (most, hard))


def _give_up(status: int, reason: str) -> None:
    os.write(2, reason.encode("utf-8", "replace"))
    os._exit(status)


def main() -> None:
    """Compile, or serve in a thread whose stack is large enough for the component's."""
    if sys.argv[1] == "compile":
        if hasattr(os, "nice"):
            os.nice(5)  # compiling uses all processors, often while a host starts
        compile_component(sys.argv[3], sys.argv[4])
        return
    threading.stack_size(_THREAD_STACK)
    thread = threading.Thread(target=serve, args=(sys.argv[3],))
    thread.start()
    thread.join()
    os._exit(1)


if __name__ == "__main__":
    main()
