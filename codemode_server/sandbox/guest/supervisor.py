"""The first process in a microVM: keeps a runner ready, passes its frames on, ends it and cleans up.

    python3 -s -B -c "…; from codemode_guest import supervisor; supervisor.main()" PORT

It is root inside and runs nothing of a program; each program runs in a fresh process forked from here, as a user who
may nothing. Towards the host it has one byte stream over vsock of packets:

    kind (1 byte), length (4 bytes, big-endian), so many bytes: at most 16 KiB to the host, 64 KiB from it

    0 data      of the program's frames, either way
    1 control   a JSON object, see below
    2 received  4 bytes: so many bytes of data have been taken in

The supervisor has at most 128 KiB of data on its way unanswered, the host 256 KiB. Towards the host, a vsock stream of
libkrun needs both: it loses writes over 32 KB, and stalls for good after 256 KB that nobody answers (its issue 772).

    supervisor → host   ready {python, pid}       a runner waits for a program
                    over {}                   the program has filled the scratch folders
                    gone {status, memory}     the runner ended, or closed its stream; `memory`: the kernel ended it
                    ended {clean, over}       answers `end`; if clean, `ready` follows; `over`: as above, at the end
    host → supervisor   begin {memory_mb, disk_mb}    the data that follows is a program
                    end {}                        end the program, if it has not ended, and clean up
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from typing import Any

from . import system_calls, threads
from .cleaning import USER, empty_scratch, forget_files, kill_all_of_user, no_shared_memory, number_in, used_bytes

DATA, CONTROL, RECEIVED = 0, 1, 2
HEADER = struct.Struct(">BI")
PACKET = 16 * 2**10
WINDOW = 128 * 2**10
_ANSWER = 64 * 2**10  # each packet costs an exit of the virtual machine
_HOST = 2  # the address of the host in vsock
_PROCESSES = 128
_FILES = 256
_WATCH_SECONDS = 0.15
_MIN_FREE = 0.75
_NO_NAMESPACES = "/proc/sys/user/max_user_namespaces"
_SET_FLAGS = 0x8914  # of a network card
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the guest's
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",  # numpy's import takes 40 MB of the program's memory for each
}


class _HostStream:
    def __init__(self, port: int) -> None:
        stream = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
        stream.connect((_HOST, port))
        self.descriptor = stream.detach()
        self._buffer = bytearray()

    def send(self, kind: int, data: bytes) -> None:
        left = memoryview(HEADER.pack(kind, len(data)) + data)
        while left:
            left = left[os.write(self.descriptor, left) :]

    def control(self, **message: Any) -> None:
        self.send(CONTROL, json.dumps(message).encode())

    def packets(self) -> Any:
        """Packets that have arrived, after one read; raises EOFError if the host is gone."""
        chunk = os.read(self.descriptor, 2**18)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        while len(self._buffer) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._buffer)
            end = HEADER.size + size
            if len(self._buffer) < end:
                break
            data = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield kind, data


class _Runner:
    """One runner process, and the supervisor's end of its stream."""

    def __init__(self) -> None:
        self.stream, theirs = socket.socketpair()
        self.kills = number_in("/proc/vmstat", "oom_kill ")
        self.pid = os.fork()
        if self.pid == 0:
            _become_runner(theirs, self.stream)
        theirs.close()
        self.stream.setblocking(False)
        self.ending = os.pidfd_open(self.pid)
        self.outgoing = bytearray()
        self.written = 0
        self.unanswered = 0
        self.status: int | None = None

    def limit(self, memory_mb: int, disk_mb: int) -> None:
        """Limit the memory and files of the program, beyond what the runner uses already."""
        used = number_in(f"/proc/{self.pid}/status", "VmData:") * 1024
        memory = used + memory_mb * 2**20
        resource.prlimit(self.pid, resource.RLIMIT_DATA, (memory, memory))
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (disk_mb * 2**20, disk_mb * 2**20))

    def read(self) -> bytes | None:
        """Some data that it sent; empty once it has closed, None if there is none now."""
        try:
            return self.stream.recv(PACKET)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self) -> int:
        """Write pending data, as much as it accepts; gives the number of bytes."""
        try:
            sent = self.stream.send(self.outgoing)
        except BlockingIOError:
            return 0
        except OSError:
            sent = len(self.outgoing)
        del self.outgoing[:sent]
        return sent

    def end(self) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)

    @property
    def ran_out_of_memory(self) -> bool:
        return self.status == threads.EXIT_OUT_OF_MEMORY or (
            self.status == -signal.SIGKILL and number_in("/proc/vmstat", "oom_kill ") > self.kills
        )

    def close(self) -> None:
        self.stream.close()
        os.close(self.ending)


class Supervisor:
    """Runners, one after the other, for the host at the other end of a stream."""

    def __init__(self, host: _HostStream) -> None:
        self._host = host
        self._selector = selectors.DefaultSelector()
        self._selector.register(host.descriptor, selectors.EVENT_READ, "host")
        self._runner: _Runner | None = None
        self._reading = 0
        self._is_running = False
        self._disk_bytes = 0
        self._is_over = False
        self._used_at_start = used_bytes()
        self._free_at_start = 0

    def serve(self) -> None:
        self._start_runner()
        self._free_at_start = number_in("/proc/meminfo", "MemAvailable:")
        watch_at = 0.0
        while True:
            for key, events in self._selector.select(_WATCH_SECONDS if self._is_running else None):
                if key.data == "host":
                    for kind, data in self._host.packets():
                        self._take(kind, data)
                elif (runner := self._runner) is not None and key.data is runner:
                    self._serve_runner(runner, key.fd, events)
            if self._is_running and time.monotonic() > watch_at:
                watch_at = time.monotonic() + _WATCH_SECONDS
                if not self._is_over and self._is_full():
                    self._is_over = True
                    self._host.control(op="over")

    def _is_full(self) -> bool:
        return used_bytes() - self._used_at_start > self._disk_bytes

    def _take(self, kind: int, data: bytes) -> None:
        runner = self._runner
        if kind == CONTROL:
            message = json.loads(data)
            if message["op"] == "begin" and runner is not None:
                forget_files()
                runner.limit(message["memory_mb"], message["disk_mb"] + 1)
                self._disk_bytes = message["disk_mb"] * 2**20
                self._is_over = False
                self._is_running = True
            elif message["op"] == "end":
                self._end()
        elif kind == RECEIVED and runner is not None:
            runner.unanswered -= int.from_bytes(data, "big")
            if runner.status is not None:
                self._pass_last_words(runner)
            self._interest()
        elif kind == DATA and runner is not None:
            runner.outgoing += data
            self._pass_on(runner)
        elif kind == DATA:
            self._host.send(RECEIVED, len(data).to_bytes(4, "big"))  # for a runner that is gone

    def _pass_on(self, runner: _Runner) -> None:
        runner.written += runner.write()
        if runner.written >= _ANSWER:
            self._host.send(RECEIVED, runner.written.to_bytes(4, "big"))
            runner.written = 0
        self._interest()

    def _serve_runner(self, runner: _Runner, descriptor: int, events: int) -> None:
        if descriptor == runner.ending:
            self._end_runner(runner)
        elif events & selectors.EVENT_WRITE:
            self._pass_on(runner)
        if runner.status is not None:
            self._pass_last_words(runner)
        elif events & selectors.EVENT_READ:
            data = runner.read()
            if data == b"":
                self._gone(runner)
            elif data:
                self._send_data(runner, data)

    def _send_data(self, runner: _Runner, data: bytes) -> None:
        runner.unanswered += len(data)
        self._host.send(DATA, data)
        self._interest()

    def _interest(self) -> None:
        """Read from the runner while the host keeps up; write while there is something to write."""
        runner = self._runner
        if runner is None:
            return
        wanted = selectors.EVENT_READ if runner.unanswered + PACKET <= WINDOW else 0
        wanted |= selectors.EVENT_WRITE if runner.outgoing else 0
        if wanted == self._reading:
            return
        if not wanted:
            self._selector.unregister(runner.stream)
        elif self._reading:
            self._selector.modify(runner.stream, wanted, runner)
        else:
            self._selector.register(runner.stream, wanted, runner)
        self._reading = wanted

    def _pass_last_words(self, runner: _Runner) -> None:
        """Forward what a runner had sent when it ended, as far as the host accepts it now; then it is gone."""
        while runner.unanswered + PACKET <= WINDOW:
            if not (data := runner.read()):
                self._gone(runner)
                return
            self._send_data(runner, data)

    def _gone(self, runner: _Runner) -> None:
        """The runner has ended by itself, or closed its stream: report that."""
        self._end_runner(runner)
        self._forget_runner(runner)
        self._host.control(op="gone", status=runner.status, memory=runner.ran_out_of_memory)

    def _end_runner(self, runner: _Runner) -> None:
        """Take the status of a runner that has ended, or end it; its last output is still to be read."""
        if runner.status is None:
            self._selector.unregister(runner.ending)
            runner.end()

    def _forget_runner(self, runner: _Runner) -> None:
        if self._reading:
            self._selector.unregister(runner.stream)
            self._reading = 0
        runner.close()
        self._runner = None
        self._is_running = False

    def _start_runner(self) -> None:
        runner = self._runner = _Runner()
        self._selector.register(runner.ending, selectors.EVENT_READ, runner)
        self._interest()
        self._host.control(op="ready", python=sys.version.split()[0], pid=runner.pid)

    def _end(self) -> None:
        is_over = self._is_over or self._is_full()
        if (runner := self._runner) is not None:
            self._end_runner(runner)
            self._forget_runner(runner)
        clean = kill_all_of_user() and empty_scratch() and no_shared_memory()
        forget_files()  # else the host can't free what it removes from the workspace now
        clean = clean and number_in("/proc/meminfo", "MemAvailable:") > _MIN_FREE * self._free_at_start
        self._host.control(op="ended", clean=clean, over=is_over)
        if clean:
            self._start_runner()


def _become_runner(stream: socket.socket, other_end: socket.socket) -> None:
    """In the forked process: drop all privileges, then wait for the program."""
    status = 1
    try:
        other_end.close()
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", "500")
        os.setsid()
        number = stream.fileno()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, number)
        os.closerange(number + 1, 1_024)
        limits = ((resource.RLIMIT_NPROC, _PROCESSES), (resource.RLIMIT_NOFILE, _FILES), (resource.RLIMIT_CORE, 0))
        for limit, value in limits:
            resource.setrlimit(limit, (value, value))
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
        os.chdir("/")
        os.umask(0o022)
        os.environ.clear()
        os.environ.update(_ENVIRONMENT)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        system_calls.refuse_needless()
        threads.run(stream)
        status = 0
    except MemoryError:
        status = threads.EXIT_OUT_OF_MEMORY
    finally:
        os._exit(status)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _harden() -> None:
    """Switch off what no program needs, for good; for the rest see `system_calls`."""
    with contextlib.suppress(OSError):  # not in every kernel
        _write(_NO_NAMESPACES, "0")
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "-1000")
    with socket.socket() as any_socket:
        for _, name in socket.if_nameindex():  # there is a card even where no network is wanted
            if name != "lo":
                with contextlib.suppress(OSError):
                    fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", name.encode(), 0))
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody looks into the supervisor


def _warm_up() -> None:
    """Import what most programs do; each is forked from here and has it at once."""
    for name in ("concurrent.futures", "csv", "datetime", "hashlib", "random", "statistics", "urllib.parse"):
        importlib.import_module(name)


def main() -> None:
    """Serve the host at the port of the first argument; ends when it is gone."""
    host = _HostStream(int(sys.argv[1]))
    sys.argv[:] = [""]
    if sys.version_info < (3, 11):  # noqa: UP036 - it is the image's Python, not ours
        host.control(op="ready", python=sys.version.split()[0], pid=0)
        return
    _harden()
    _warm_up()
    with contextlib.suppress(EOFError, OSError):
        Supervisor(host).serve()
    os._exit(0)
