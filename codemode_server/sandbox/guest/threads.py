"""The runner where threads are real: one program in a Linux process, over a socket whose other end is the supervisor's.

A thread reads the replies, so whoever waits for a call holds up nobody else. What the program's subprocesses print
comes out with what it prints itself. A process that the program forks has no link: only the first one calls tools.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import asyncio.selector_events
import concurrent.futures
import concurrent.futures.thread
import os
import select
import selectors
import socket
import struct
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import loops, modules, pictures, repetition, runner
from .calls import Calls
from .link import Link
from .loops import Reentrant
from .output import Output
from .replacements import replace_members

EXIT_OUT_OF_MEMORY = 5
_ADVICE = "not available in the sandbox; use the standard library"
_HEADER = struct.Struct(">I")
_size_of = len  # made now: a program may put its own in place later
_THREAD_STACK = 2**20
"""Bytes; a thread's stack counts as memory of the program from its start on."""
_LAST_WORDS_SECONDS = 0.2


class SocketTransport:
    """Frames as `sandbox/frames.py` has them, over a stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self.is_in_fork = False

    def send(self, text: str) -> None:
        if self.is_in_fork:
            raise RuntimeError("a forked process can't call tools; call them in the program itself")
        data = text.encode()
        self._stream.sendall(_HEADER.pack(_size_of(data)))
        self._stream.sendall(data)

    def receive(self, timeout_s: float | None) -> str:
        """The next frame, however long it takes; raises EOFError if the host is gone."""
        while True:
            if _size_of(self._buffer) >= _HEADER.size:
                end = _HEADER.size + _HEADER.unpack_from(self._buffer)[0]
                if _size_of(self._buffer) >= end:
                    with memoryview(self._buffer) as view:
                        text = str(view[_HEADER.size : end], "utf-8")
                    del self._buffer[:end]
                    return text
            chunk = self._stream.recv(2**18)
            if not chunk:
                raise EOFError("the host is gone")
            self._buffer += chunk


class Loop(Reentrant, asyncio.SelectorEventLoop):
    """asyncio's own loop, which may be entered again from inside."""

    _selector: selectors.BaseSelector

    if TYPE_CHECKING:

        def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None: ...

    def _wait(self, timeout: float | None) -> None:
        self._process_events(self._selector.select(timeout))

    def _look(self) -> None:
        self._wait(0)


def run(stream: socket.socket) -> None:
    repetition.install()
    pictures.install()
    transport = SocketTransport(stream)
    link = Link(transport)
    frame = link.open()
    threading.stack_size(_THREAD_STACK)
    threading.excepthook = runner.report_thread
    reader = threading.Thread(target=_read, args=(link,), name="codemode-link", daemon=True)
    link.wait = _wait_on(link, reader)
    calls = Calls(link)
    modules.install(link, calls, advice=_ADVICE).add(frame["modules"])
    _add_packages()
    run_async = loops.install(Loop)
    _watch_children()
    # Other processes would have no link; a pool of them means the same to a program that only wants the results.
    replace_members(concurrent.futures, ProcessPoolExecutor=concurrent.futures.thread.ThreadPoolExecutor)
    os.register_at_fork(after_in_child=lambda: _cut_off(link, transport))
    reader.start()
    ended = _take_in_subprocesses(link)
    runner.run(link, calls, frame, run_async, ended)


def _add_packages() -> None:
    """After the standard library, before what the image has installed, which may be another version."""
    installed = (at for at, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages")))
    sys.path.insert(next(installed, len(sys.path)), modules.PACKAGES_FOLDER)


def _watch_children() -> None:
    """asyncio's subprocesses need a watcher of the policy's, until Python 3.14 does without."""
    watcher = getattr(asyncio, "ThreadedChildWatcher", None)
    if watcher is not None and sys.version_info < (3, 14):
        only = watcher()
        replace_members(asyncio.get_event_loop_policy(), get_child_watcher=lambda: only)


def _wait_on(link: Link, reader: threading.Thread) -> Any:
    def wait(future: Future[Any]) -> Any:
        if threading.current_thread() is reader:  # Python collects an object there, whose `__del__` makes a call
            raise RuntimeError("nobody can wait for a call in the thread that reads its answer; the call is made")
        link.before_wait()
        return future.result()

    return wait


def _read(link: Link) -> None:
    try:
        while True:
            link.pump(None)
    except MemoryError:
        os._exit(EXIT_OUT_OF_MEMORY)
    except (EOFError, OSError):
        os._exit(0)


def _cut_off(link: Link, transport: SocketTransport) -> None:
    transport.is_in_fork = True
    link.cut_off()
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - a descriptor
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - a descriptor


def _take_in_subprocesses(link: Link) -> Any:
    """Pass on what others write to this process's stdout and stderr; gives what to call at the end."""
    nothing = os.open(os.devnull, os.O_WRONLY)  # now: at the end the program may have no descriptor left
    readers = []
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        output = Output(link, stream)
        thread = threading.Thread(target=_pass_on, args=(reading, output), daemon=True)
        thread.start()
        readers.append((thread, reading))

    def end() -> None:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        for thread, reading in readers:
            thread.join(None if _has_ended(reading) else _LAST_WORDS_SECONDS)

    return end


def _has_ended(reading: int) -> bool:
    """True if no process has the other end of a pipe; one that lives on may."""
    poll = select.poll()
    poll.register(reading, 0)
    return bool(poll.poll(0))


def _pass_on(reading: int, output: Output) -> None:
    while chunk := os.read(reading, 2**16):
        output.buffer.write(chunk)
        output.flush()
