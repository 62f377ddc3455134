"""What can be known of Windows without one: nothing that only POSIX has is needed to import a module or to serve a
client, programs are found and files walked as it takes there, and a server's process gets the variables it needs there.

`make check` checks the same with the types of Windows. Neither knows what its file system and its processes really do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.executions.workspace import Workspace
from codemode_server.processes import windows
from codemode_server.secrets.commands import output_of
from codemode_server.support.untrusted_files import empty, used_bytes, walk
from codemode_server.upstreams.transports.stdio import inherited_environment
from tests.behaviour.product import Answer, configuration, office
from tests.test_architecture import FILES, PACKAGE

IN_THE_SANDBOX = {"sandbox/backends/wasm/worker.py", "processes/orphan_reaper_main.py"}
"""Programs of their own, which are started and never imported."""
IMPORT_ALL = """
import importlib, sys
from tests import windows_like
windows_like.take_away()
for module in sys.argv[1:]:
    importlib.import_module(module)
print("imported", len(sys.argv) - 1)
"""


def modules() -> list[str]:
    names = (path.relative_to(PACKAGE.parent).with_suffix("").as_posix() for path in FILES if not _is_program(path))
    return [name.replace("/", ".").removesuffix(".__init__") for name in names]


def _is_program(path: Path) -> bool:
    return path.name == "__main__.py" or path.relative_to(PACKAGE).as_posix() in IN_THE_SANDBOX


@pytest.mark.slow
def test_every_module_of_the_host_is_imported_without_what_windows_lacks() -> None:
    names = modules()
    command = [sys.executable, "-c", IMPORT_ALL, *names]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert done.stdout == f"imported {len(names)}\n", done.stderr


def test_a_server_gets_the_variables_that_programs_on_windows_need() -> None:
    given = {"AppData": "a", "LocalAppData": "b", "ProgramFiles": "c", "SystemRoot": "d", "Path": "e", "API_KEY": "f"}
    names = {"APPDATA": "a", "LOCALAPPDATA": "b", "PROGRAMFILES": "c", "SYSTEMROOT": "d", "PATH": "e"}
    assert inherited_environment(given, "win32") == names


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_a_client_is_served_with_a_sandbox_and_servers_without_what_windows_lacks(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"), sandbox={"backend": "wasm"}, limits={"wall_seconds": 5})
    arguments = ["-m", "tests.windows_like", "--config", str(path)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=PACKAGE.parent)
    async with Client(parameters) as client:

        async def run(code: str) -> Answer:
            return Answer(await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=100))

        called = await run("from servers.github import list_issues\nlist_issues(repo='a')")
        assert len(called.value) == 5
        assert _with_environment(tmp_path), "the control"
        assert "longer than 5 s" in (await run("while True: pass")).text
        written = await run("open('/workspace/a', 'w').write('kept')")
        assert "FileNotFoundError" in written.text, "wasmtime 50.0.1 would let it out of the folder"
        listed = Answer(await client.call_tool("list_dir", {"path": "/workspace"}))
        assert "on Windows" in listed.text
    assert _with_environment(tmp_path) == []
    assert list((tmp_path / "state" / "running").iterdir()) == []


def _with_environment(folder: Path) -> list[str]:
    """The processes with a variable that is a path in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"={folder}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found


def test_what_windows_lacks_is_missing_for_our_modules_only() -> None:
    """The control."""
    code = """
from tests import windows_like
windows_like.take_away()
for name in ("codemode_server.mine", "library"):
    for line in ("import os; os.killpg", "import fcntl", "import os; os.scandir(os.open('/', os.O_RDONLY))"):
        try:
            exec(line, {"__name__": name})
            print("there")
        except (AttributeError, ModuleNotFoundError, PermissionError) as error:
            print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    missing = ["AttributeError", "ModuleNotFoundError", "PermissionError"]
    assert done.stdout.split() == [*missing, "there", "there", "there"], done.stderr


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.mark.usefixtures("on_windows")
class TestFolders:
    def test_are_emptied_and_nothing_that_a_link_points_at_is(self, tmp_path: Path) -> None:
        outside, folder = tmp_path / "outside", tmp_path / "folder"
        outside.mkdir()
        (folder / "below").mkdir(parents=True)
        (outside / "precious").write_bytes(bytes(10**6))
        (folder / "below" / "folder").symlink_to(outside)
        (folder / "file").symlink_to(outside / "precious")
        assert used_bytes(folder) < 10**5
        empty(folder)
        assert list(folder.iterdir()) == [], "the control"
        assert (outside / "precious").stat().st_size == 10**6

    def test_are_not_entered_once_a_link_stands_in_their_place(self, tmp_path: Path) -> None:
        (tmp_path / "outside" / "precious").mkdir(parents=True)
        (tmp_path / "walked" / "folder").mkdir(parents=True)
        names = []
        for entry in walk(tmp_path / "walked"):
            names.append(entry.name)
            if len(names) == 1:
                (tmp_path / "walked" / "folder").rmdir()
                (tmp_path / "walked" / "folder").symlink_to(tmp_path / "outside")
        assert names == ["folder", "folder"]

    def test_of_a_workspace_are_not_there(self, tmp_path: Path) -> None:
        workspace = Workspace(tmp_path / "state", Principal(PrincipalId("default")))
        workspace.make()
        (workspace.path / "a").touch()
        with pytest.raises(MetaToolError, match="no /workspace on Windows"):
            workspace.list(())
        with pytest.raises(MetaToolError, match="no /workspace on Windows"):
            workspace.read(("a",))


class TestPrograms:
    @pytest.fixture
    def env(self, tmp_path: Path) -> dict[str, str]:
        (tmp_path / "bin").mkdir()
        for name in ("npx", "npx.cmd", "uvx.exe"):
            (tmp_path / "bin" / name).touch()
        return {"Path": os.pathsep.join(("", ".", str(tmp_path / "none"), str(tmp_path / "bin")))}

    def test_are_found_by_their_ending(self, tmp_path: Path, env: dict[str, str]) -> None:
        for written, found in (("npx", "npx.cmd"), ("npx.cmd", "npx.cmd"), ("uvx", "uvx.exe")):
            assert windows.startable([written, "-y"], env) == [str(tmp_path / "bin" / found), "-y"]

    def test_of_the_current_folder_are_not_started(
        self, tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may be a repository of a stranger's."""
        (tmp_path / "git.exe").touch()
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FileNotFoundError) as error:
            windows.startable(["git"], env)
        assert error.value.filename == "git"
        assert windows.startable(["./git"], env) == ["./git.exe"], "the control: named by a path"

    def test_that_print_secrets_are_found_in_the_same_way(
        self, tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`az` and `gcloud` are files of commands, and a repository may have an `op.exe`."""
        script = tmp_path / "bin" / "az.cmd"
        script.write_text("#!/bin/sh\necho secret")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.setattr(windows, "begin_group", lambda _: None)
        monkeypatch.setattr(windows, "end_group", lambda process: process.kill())
        assert output_of("az account", env=env, cwd=tmp_path) == "secret"
