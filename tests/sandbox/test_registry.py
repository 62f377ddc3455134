"""A sandbox backend is one file in `sandbox/backends/`: selection, the commands and the settings find it there.

The file of a toy backend is put beside the real ones for a process of its own. What it runs is not Python: each program
returns the greeting of the settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from codemode_server.sandbox.registry import SandboxSettings, candidates
from tests.behaviour.product import configuration

ROOT = Path(__file__).parents[2]
TOY = '''
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.contract import Ending, Outcome
from codemode_server.sandbox.registry import BackendSpec, Check, Diagnosis, Outlook, SandboxSettings, Step


class ToySettings(SandboxSettings):
    greeting: str = "hello"
    """What each program returns."""


class Toy:
    name, level, importable, build = "toy", IsolationLevel.WASM, None, "toy 1"

    def __init__(self, greeting):
        self.greeting = greeting

    async def tend(self):
        pass

    async def run(self, program, host_api):
        return Outcome(Ending.RETURNED, value=self.greeting, value_form="json")

    async def aclose(self):
        pass


async def diagnose(settings, *, boot, announce):
    return Diagnosis((Check("toy", "ok", f"says {settings.greeting}"),), "a toy")


async def outlook(settings):
    return Outlook("toy")


async def prepare(settings, archive, announce):
    return Step("toy", "wound up")


async def create(settings, limits, workspace, announce):
    return Toy(settings.greeting)


BACKEND = BackendSpec(
    name="toy",
    isolation=IsolationLevel.WASM,
    sandbox="toy",
    documentation="returns a greeting for every program.",
    settings_model=ToySettings,
    diagnose=diagnose,
    outlook=outlook,
    prepare=prepare,
    create=create,
)
'''
MAIN = """
import sys
import codemode_server.sandbox.backends as backends
backends.__path__.append(sys.argv.pop(1))
from codemode_server.__main__ import main
main()
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """`codemode-server` with the toy among its backends, and a configuration that chooses it."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "toy.py").write_text(TOY)
    sandbox = {"backend": "toy", "greeting": "good morning"}
    configuration(tmp_path, {}, sandbox=sandbox, types={"check": "none"})
    return [sys.executable, "-c", MAIN, str(tmp_path / "more"), "--config", "upstream.yaml"]


def run(folder: Path, command: list[str], line: str) -> tuple[int, str, str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    environment["MSB_HOME"] = str(folder / "msb")
    done = subprocess.run(
        [*command, *line.split()],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_doctor_says_what_it_needs_and_that_programs_run_there(tmp_path: Path, command: list[str]) -> None:
    code, stdout, stderr = run(tmp_path, command, "doctor --no-boot")
    assert (code, stderr) == (0, "")
    rows = [line.split(maxsplit=2) for line in stdout.partition("\n\n")[0].splitlines()]
    assert ["toy", "ok", "says good morning"] in rows
    assert "\nprograms will run in: a toy\n" in stdout


def test_the_schema_has_its_name_its_settings_and_their_documentation(tmp_path: Path, command: list[str]) -> None:
    code, stdout, _ = run(tmp_path, command, "config schema")
    assert code == 0
    fields: dict[str, Any] = json.loads(stdout)["$defs"]["SandboxSettings"]["properties"]
    assert "toy" in fields["backend"]["anyOf"][0]["enum"]
    assert "`toy`: returns a greeting for every program." in fields["backend"]["description"]
    assert fields["greeting"] == {"description": "What each program returns.", "default": "hello", "type": "string"}


def test_a_wrong_name_is_answered_with_all_that_there_are(tmp_path: Path, command: list[str]) -> None:
    configuration(tmp_path, {}, sandbox={"backend": "toys"})
    code, _, stderr = run(tmp_path, command, "config check")
    assert code == 2
    assert "sandbox.backend: must be one of 'auto', 'microsandbox', 'wasm', 'toy'; did you mean 'toy'?" in stderr


async def test_programs_run_in_it(tmp_path: Path, command: list[str]) -> None:
    """And the answer states its level of isolation, as it does for every backend."""
    environment = {"PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=tmp_path, env=environment)
    async with Client(parameters) as client:
        answer = await client.call_tool("execute_code", {"code": "1 + 1"})
    assert answer.structured_content is not None
    assert (answer.structured_content["value"], answer.structured_content["isolation"]) == ("good morning", "wasm")


def test_the_best_backend_that_the_settings_allow_comes_first() -> None:
    def names(**settings: Any) -> list[str]:
        return [spec.name for spec in candidates(SandboxSettings(**settings))]

    assert names() == ["microsandbox", "wasm"]
    assert names(require="microvm") == ["microsandbox"]
    assert names(backend="wasm") == ["wasm"]
