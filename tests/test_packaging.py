"""The wheel alone is enough: installed without the source tree it checks a configuration, prepares the sandbox and runs
a program for a real client. And the files for a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from codemode_server import __version__
from codemode_server.cli import run
from tests.behaviour.product import configuration, office

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
MAX_WHEEL_BYTES = 16_000_000
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment, with the wheel installed. Its dependencies are those of this environment,
    whose own `.pth` files, and so this source tree, it does not read."""
    folder = tmp_path_factory.mktemp("packaging")
    wheels = folder / "wheels"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.glob("*.whl")
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "codemode-server"


def said(command: Path, folder: Path, *arguments: str) -> str:
    """What the installed command prints, run from a folder without the source tree."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(400)  # the wheel's component is compressed, which takes half a minute beside other tests
async def test_the_wheel_runs_a_program_for_a_client_without_the_source_tree(command: Path, tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "github"), sandbox={"backend": "wasm"})
    place = said(command.parent / "python", tmp_path, "-c", "import codemode_server; print(codemode_server.__file__)")
    assert Path(place.strip()).is_relative_to(command.parents[1]), "the control"
    assert said(command, tmp_path, "--version") == f"codemode-server {__version__}\n"
    assert "github" in said(command, tmp_path, "config", "check", "--config", str(path))
    assert "compiled" in said(command, tmp_path, "setup", "--config", str(path))
    parameters = StdioServerParameters(command=str(command), args=["--config", str(path)], cwd=tmp_path)
    async with Client(parameters) as client:
        code = "from servers.github import list_issues\nlen(list_issues(repo='a'))"
        answer = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=100)
    assert not answer.is_error, answer
    assert (answer.structured_content or {})["status"] == "succeeded"


def test_words_are_completed_in_bash(capsys: pytest.CaptureFixture[str]) -> None:
    run(["completion", "bash"])
    script = capsys.readouterr().out
    for typed, completed in {
        "ex": {"executions"},
        "executions sh": {"show"},
        "serve --ht": {"--http"},
        "xy": set(),
    }.items():
        words = ["codemode-server", *typed.split()]
        place = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
        complete = f"{script}\n{place}; _shtab_codemode_server; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", complete], capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == completed


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of Linux")
def test_paths_are_those_of_the_configuration_and_the_user_and_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DATA", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    path = configuration(tmp_path, {})
    assert run(["paths", "--json", "--config", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["state"]) == (str(path), str(tmp_path / "state"))
    for name in ("data", "cache"):
        assert found[name] == str(tmp_path / name / "codemode-server")
    assert [name for name in ("data", "cache", "config") if (tmp_path / name).exists()] == [], "nothing is made"


class TestTheContainer:
    def test_passes_the_linter(self) -> None:
        linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
        if linter is None:
            pytest.skip("hadolint is not installed here")
        done = subprocess.run([linter, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
        worse = DOCKERFILE.replace("WORKDIR /source", "RUN cd /source")
        control = subprocess.run([linter, "-"], input=worse, capture_output=True, text=True, check=False)
        assert "DL3003" in control.stdout, "the control"

    def test_does_not_run_as_root_and_prepares_the_sandbox(self) -> None:
        last = DOCKERFILE.rpartition("\nFROM ")[2]
        assert last.index("USER 10001") < last.index("codemode-server setup") < last.index("ENTRYPOINT")
        assert "USER root" not in last

    def test_its_command_and_its_settings_are_ours(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (arguments,) = re.findall(r"^CMD (\[\"serve.+\])$", DOCKERFILE, re.MULTILINE)
        assert json.loads(arguments) == ["serve", "--http", "127.0.0.1:8000"]
        (settings,) = re.findall(r"printf '(.+)\\n' > /tmp/upstream.yaml", DOCKERFILE)
        (tmp_path / "upstream.yaml").write_text(settings)
        assert run(["config", "check", "--config", str(tmp_path / "upstream.yaml")]) == 0
