"""Starts Python programs of the tests by fork from a process that has imported what they need: 0.1 s in place of 1.3.

`command("-m", "codemode_server", "status")` is a command line that does the same as one that starts with
`sys.executable`: it has the caller's environment, folder and streams, passes SIGTERM and SIGINT on, dies together with
the program, and ends with its exit code. What it can't show is how a process starts: what the product imports before
the handshake, its orphans and its process group. Tests of those start a real one.

Each test process has up to three servers: one that has imported the product, one with the libraries alone, and a small
one for upstreams that need the standard library alone, of which a fork costs a tenth. A server ends when its stdin
closes, hence with the test process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
RELAY = ROOT / "tests" / "fork_relay.py"
MODULES = (
    "anyio._backends._asyncio",
    "codemode_server.app",
    "codemode_server.cli.doctor",
    "codemode_server.cli.status",
    "codemode_server.mcp_server.http",
    "codemode_server.startup.serve",
    "mcp.server.mcpserver",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.trace.export",
)
LIBRARIES = (
    "anyio._backends._asyncio",
    "mcp.client",
    "mcp.server.mcpserver",
    "numpy",
    "opentelemetry.trace",
    "pydantic",
    "ruamel.yaml",
)
SMALL_MODULES = (
    "base64",
    "json",
    "pathlib",
    "random",
    "subprocess",
    "threading",
    "tests.example_servers.plain",
)
TEMPORARY = tempfile.gettempdir()
"""As it is before any test changes it for itself."""
Request = tuple[list[str], str, dict[str, str], int]
"""Python's arguments, the folder, the environment and the umask, as the relay sends them."""


def command(*arguments: str) -> list[str]:
    """The command line that runs Python with these arguments: `-m MODULE …` or `SCRIPT …`."""
    return [sys.executable, "-I", "-S", str(RELAY), _server("product"), *arguments]


def bare_command(script: Path, *arguments: str) -> list[str]:
    """The same for a script that imports the product itself: only libraries are loaded."""
    return [sys.executable, "-I", "-S", str(RELAY), _server("libraries"), str(script), *arguments]


def small_upstream(script: Path, *arguments: str) -> dict[str, Any]:
    """An upstream of a configuration that needs the standard library alone."""
    return {"command": sys.executable, "args": ["-I", "-S", str(RELAY), _server("small"), str(script), *arguments]}


def upstream(*arguments: str) -> dict[str, Any]:
    """That command line as an upstream of a configuration."""
    command_name, *args = command(*arguments)
    return {"command": command_name, "args": args}


@functools.cache
def _server(kind: str) -> str:
    """Starts a server of this process; gives the path of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="fork-server-", dir=TEMPORARY)
    path = f"{folder.name}/socket"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), kind, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == b"ready\n", "the fork server did not start"

    def end() -> None:
        with process:
            pass
        folder.cleanup()

    atexit.register(end)
    return path


def _serve(kind: str, path: str) -> None:
    for module in {"product": MODULES, "libraries": LIBRARIES, "small": SMALL_MODULES}[kind]:
        importlib.import_module(module)
    if kind == "product":
        _read_digests()
    threads = [path.name for path in Path("/proc/self/task").glob("*")]
    assert len(threads) <= 1, "threads do not survive a fork"
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    wakeup, woken = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    events = selectors.DefaultSelector()
    for source in (sys.stdin, listener, woken):
        events.register(source, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    print("ready", flush=True)
    while True:
        for key, _ in events.select():
            if key.fileobj is sys.stdin:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                return
            if key.fileobj is listener:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError, ValueError, EOFError):  # It may be killed before it has said all.
                    _start(connection, running)
                    events.register(connection, selectors.EVENT_READ)
            elif key.fileobj is woken:
                woken.recv(4096)
                _reap(running, events)
            else:  # The command was killed, after its program had ended or before.
                for pid in [pid for pid, connection in running.items() if connection is key.fileobj]:
                    os.kill(pid, signal.SIGKILL)
                    events.unregister(key.fileobj)


def _read_digests() -> None:
    """Each fork then knows the digests of the component and of its native code, which take 0.1 s."""
    from codemode_server.sandbox.backends.wasm import build, component

    if build.COMPONENT.is_file():
        component.is_compiled(build.COMPONENT, component.cache_folder())


def _start(connection: socket.socket, running: dict[int, socket.socket]) -> None:
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    try:
        with connection.makefile("rb") as requests:
            request: Request = marshal.load(requests)
        with contextlib.suppress(OSError, SyntaxError):  # The program says so itself.
            _code(request[0][0], Path(request[0][0]).stat().st_mtime_ns)
        pid = os.fork()
        if not pid:
            _run(request, streams)
    finally:
        for stream in streams:
            os.close(stream)
    running[pid] = connection
    with contextlib.suppress(OSError):  # It was killed meanwhile, which its connection shows next.
        connection.sendall(b"%d\n" % pid)


@functools.lru_cache(maxsize=32)
def _code(path: str, _modified_at: int) -> types.CodeType:
    """What a script is compiled to; forks have that of scripts that ran before."""
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def _run_script(path: str) -> None:
    """As `runpy.run_path` does."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    exec(_code(path, Path(path).stat().st_mtime_ns), main.__dict__)


def _reap(running: dict[int, socket.socket], events: Any) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        connection = running.pop(pid)
        if connection in events.get_map():
            events.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        connection.close()


def _run(request: Request, streams: list[int]) -> NoReturn:
    """In the fork: becomes the program."""
    code = 1
    arguments, folder, environment, umask = request
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A shell's background job ignores it, and so would all that the tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        os.closerange(3, 256)
        os.umask(umask)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update({"CODEMODE_STANDALONE": "1"} | environment)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        first, *rest = arguments
        if first == "-m":
            module, *rest = rest
            sys.path[0] = folder
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(first).parent)
            sys.argv = [first, *rest]
            _run_script(first)
        code = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            code = end.code or 0
        else:
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
