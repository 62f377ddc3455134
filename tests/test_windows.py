"""What can be known of Windows without one: nothing that only POSIX has is needed to import a module, and a server's
process gets the variables that programs on Windows need."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from codemode_server.upstreams._inherited import inherited_environment
from tests.test_architecture import FILES, PACKAGE

POSIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
POSIX_NAMES = {
    "os": {"O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "fork", "geteuid", "getuid", "killpg"}
    | {"getpgid", "setsid", "register_at_fork", "uname", "WNOHANG", "EX_OK"},
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGALRM", "SIGPIPE", "pthread_sigmask"},
}
IN_THE_SANDBOX = {"sandbox/backends/wasm/worker.py", "upstreams/orphan_reaper_main.py"}
"""Programs of their own, which are started and never imported."""
IMPORT_ALL = f"""
import builtins, importlib, sys
absent, found = {set(POSIX_MODULES)!r}, builtins.__import__
def without_posix(name, names=None, *rest):
    if name in absent and (names or {{}}).get("__name__", "").startswith(sys.argv[1]):
        raise ModuleNotFoundError(name)
    return found(name, names, *rest)
builtins.__import__ = without_posix
for module in sys.argv[2:]:
    importlib.import_module(module)
print("imported", len(sys.argv) - 2)
"""


def modules() -> list[str]:
    names = (path.relative_to(PACKAGE.parent).with_suffix("").as_posix() for path in FILES if not _is_program(path))
    return [name.replace("/", ".").removesuffix(".__init__") for name in names]


def _is_program(path: Path) -> bool:
    return path.name == "__main__.py" or path.relative_to(PACKAGE).as_posix() in IN_THE_SANDBOX


def test_every_module_of_the_host_is_imported_without_what_only_posix_has() -> None:
    names = modules()
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, "codemode_server", *names], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"imported {len(names)}\n", done.stderr


def test_a_module_that_needs_fcntl_is_found(tmp_path: Path) -> None:
    """The control."""
    (tmp_path / "needy.py").write_text("import fcntl\n")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, "needy", "needy"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError: fcntl" in done.stderr


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node outside the bodies of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def posix_names(source: str) -> list[str]:
    return [
        f"{node.value.id}.{node.attr}"
        for node in run_at_import(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.attr in POSIX_NAMES.get(node.value.id, ())
    ]


@pytest.mark.parametrize("path", [path for path in FILES if not _is_program(path)], ids=lambda path: path.stem)
def test_no_module_reads_at_import_what_only_posix_has(path: Path) -> None:
    assert posix_names(path.read_text()) == []


def test_a_name_that_only_posix_has_is_found() -> None:
    """The control, and that these names are names here."""
    assert posix_names("import os\nFLAGS = os.O_RDONLY | os.O_NOFOLLOW\ndef f(): os.geteuid()") == ["os.O_NOFOLLOW"]
    if sys.platform == "linux":
        assert [name for name in POSIX_NAMES["os"] if not hasattr(os, name)] == []
        assert [name for name in POSIX_NAMES["signal"] if not hasattr(signal, name)] == []


class TestTheVariablesOfAServer:
    WINDOWS: ClassVar = {
        "AppData": r"C:\Users\a\AppData\Roaming",
        "LocalAppData": r"C:\Users\a\AppData\Local",
        "ProgramFiles": r"C:\Program Files",
        "SystemRoot": r"C:\Windows",
        "Path": r"C:\Windows\System32",
        "OPENAI_API_KEY": "sk-secret",
    }

    def test_on_windows_are_those_that_programs_there_need(self) -> None:
        given = inherited_environment(self.WINDOWS, "win32")
        assert {"APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "SYSTEMROOT", "PATH"} == given.keys()
        assert given["PROGRAMFILES"] == r"C:\Program Files"

    def test_elsewhere_are_those_that_mcp_passes_on(self) -> None:
        from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

        every = dict.fromkeys([*DEFAULT_INHERITED_ENV_VARS, "OPENAI_API_KEY", "APPDATA"], "x")
        if sys.platform != "win32":
            assert inherited_environment(every, sys.platform) == dict.fromkeys(DEFAULT_INHERITED_ENV_VARS, "x")
        assert inherited_environment({"PATH": "() { :; }"}, "linux") == {}
