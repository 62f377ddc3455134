"""The process that owns an instance of the component; killing it is how a program is ended, whatever it does.

    python -I -B worker.py serve <folder with wasmtime> <native code>
    python -I -B worker.py compile <folder with wasmtime> <component> <native code>

It passes frames on without reading them: stdin to the guest, the guest to stdout. A frame of length 0 is the worker's
own word, which no guest can say. The first from the host means "make an instance", with its settings in the frame
after, the second "its program follows". The worker says "the instance waits for it", and then "the program is over".
Imports nothing of codemode_server and gets no environment. What went wrong goes to stderr.
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

EXIT_BAD_NATIVE_CODE = 3
EXIT_TRAPPED = 4
EXIT_OUT_OF_MEMORY = 5
_WASM_STACK = 2 * 2**20  # as much as wasmtime takes
_THREAD_STACK = 16 * 2**20
_OPEN_FILES = 256
_READ = 2**18
_DEEP = "call stack exhausted"


def engine() -> wasmtime.Engine:
    """The same for compiling and for running: native code fits no other settings."""
    config = wasmtime.Config()
    config.wasm_component_model = True
    config.max_wasm_stack = _WASM_STACK
    return wasmtime.Engine(config)


def compile_component(source: str, target: str) -> None:
    """Write the component's native code for this machine and its digest, each whole or not at all.

    All of it is done here, so that a product that is ended meanwhile leaves a machine that is ready for the next one.
    """
    import hashlib

    made = component.Component.from_file(engine(), source).serialize()
    digest = hashlib.sha256(made).hexdigest().encode()
    for path, content in ((target, made), (f"{target}.sha256", digest)):
        unfinished = os.path.join(os.path.dirname(path), f"compiling-{os.getpid()}")  # noqa: PTH118, PTH120 - see above
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        os.replace(unfinished, path)  # noqa: PTH105


class _Pipe:
    """Frames on stdin and stdout; the host's death ends the process at once, even while a program computes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._chunks: queue.SimpleQueue[bytes] | None = None
        if hasattr(select, "poll"):
            threading.Thread(target=_end_with_the_host, daemon=True).start()
        else:
            self._chunks = queue.SimpleQueue()
            threading.Thread(target=self._read_ahead, args=(self._chunks,), daemon=True).start()

    def write(self, text: str) -> None:
        data = text.encode()
        del text
        for piece in (struct.pack(">I", len(data)), data):  # one by one: it may be too long to be copied once more
            left = memoryview(piece)
            while left:
                left = left[os.write(1, left) :]

    def read(self, timeout_s: float | None) -> str | None:
        """The next frame, if it comes in time."""
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
        """Where nothing can wait for the other end's closing alone, a thread reads all the time."""
        while chunk := os.read(0, _READ):
            chunks.put(chunk)
        os._exit(0)

    def next_program(self) -> dict[str, Any]:
        """Skip what was meant for the last program, up to the settings of the next."""
        while self.read(None):
            pass
        settings: dict[str, Any] = json.loads(self.read(None) or "{}")
        return settings


def _end_with_the_host() -> None:
    poll = select.poll()
    poll.register(0, 0)  # closing is always told
    poll.poll()
    os._exit(0)


def serve(native_code: str) -> None:
    """Run programs, each in an instance of its own, until the host closes stdin."""
    shared = engine()
    try:
        code = component.Component.deserialize_file(shared, native_code)
    except wasmtime.WasmtimeError as error:
        _give_up(EXIT_BAD_NATIVE_CODE, f"this is no native code of the sandbox: {error}")
    pipe = _Pipe()

    def send(_: wasmtime.Store, frame: str) -> None:
        if frame:  # an empty one is the worker's own word
            pipe.write(frame)

    def receive(_: wasmtime.Store, timeout_us: int) -> str | None:
        frame = pipe.read(None if timeout_us < 0 else timeout_us / 1_000_000)
        if frame == "":
            pipe.write("")
            frame = pipe.read(None)
        return frame

    linker = component.Linker(shared)
    linker.add_wasip2()
    with linker.root() as root:
        root.add_func("send", send)
        root.add_func("receive", receive)
    pipe.write("")
    while True:
        settings = pipe.next_program()
        _limit_files(settings["file_bytes"])
        try:
            _run_one(pipe, shared, linker, code, settings)
        except (wasmtime.Trap, wasmtime.WasmtimeError, wasmtime.ExitTrap) as error:
            _give_up(EXIT_TRAPPED, _reason(str(error)))


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
        world.preopen_dir(host_path, guest_path)
    store.set_wasi(world)
    try:
        run = linker.instantiate(store, code).get_func(store, "run")
        assert run is not None  # noqa: S101 - the component is ours
        run(store)
        pipe.write("")  # before the instance's memory is given back, which takes a moment
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        # Where an allocation fails that can't raise MemoryError, what follows is any trap.
        if _DEEP not in str(error) and _private_bytes() > 0.75 * settings["memory_bytes"]:
            _give_up(EXIT_OUT_OF_MEMORY, "the interpreter had no memory left to say so")
        raise
    finally:
        store.close()


def _private_bytes() -> int:
    """Memory in use now, where that is easily known; while the instance is there, most of it is the program's."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def _reason(trap: str) -> str:
    if _DEEP in trap:
        return "the program's calls are nested too deeply (endless recursion?)"
    last = trap.strip().splitlines()[-1] if trap.strip() else "no reason given"
    return f"the interpreter stopped: {last.strip()[:300]}"


def _limit_files(file_bytes: int) -> None:
    """What no program needs, the process may not have either."""
    try:
        import resource
    except ImportError:
        return
    limits = ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_NOFILE, _OPEN_FILES))
    for limit, value in limits:
        _, hard = resource.getrlimit(limit)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (most, hard))


def _give_up(status: int, reason: str) -> None:
    os.write(2, reason.encode("utf-8", "replace"))
    os._exit(status)


def main() -> None:
    """Serve in a thread of its own, whose stack is as deep as the component's."""
    if sys.argv[1] == "compile":
        if hasattr(os, "nice"):
            os.nice(5)  # it takes all processors, right after a host was started
        compile_component(sys.argv[3], sys.argv[4])
        return
    threading.stack_size(_THREAD_STACK)
    thread = threading.Thread(target=serve, args=(sys.argv[3],))
    thread.start()
    thread.join()
    os._exit(1)


if __name__ == "__main__":
    main()
