"""What docs/architecture.md says of adding things: each is added here, and works. A transport is added in
`upstreams/test_transports.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.product import configuration, office

ROOT = Path(__file__).parent.parent
PROGRAM = "from servers.google_drive import get_sheet\nlen(get_sheet('a'))"
FEATURE = {
    "__init__.py": '"""A toy."""',
    "settings.py": '''
from codemode_server.support.setting_types import FeatureSettings

class ToySettings(FeatureSettings):
    key = "toy"
    closed: tuple[str, ...] = ()
    """Tools that nobody may call."""
''',
    "call_layer.py": """
from codemode_server.calls.kernel import Layer
from codemode_server.domain.calls import Deny
from codemode_server.features.toy.settings import ToySettings

class Closed(Layer):
    def __init__(self, config):
        self._config = config

    async def restrict(self, call):
        closed = ToySettings.of(self._config.settings).closed
        return Deny("the toy closes it") if call.target.raw_name in closed else None
""",
    "commands.py": """
from codemode_server.cli.terminal import configuration, show
from codemode_server.features.toy.settings import ToySettings

def run(parsed):
    show(f"closed: {', '.join(ToySettings.of(configuration(parsed).settings).closed)}")
    return 0
""",
}
LISTED = """
from codemode_server import features
from codemode_server.features import Feature, FeatureSection
features.__path__.append(folder)
features.FEATURES += (
    Feature(
        "toy", (FeatureSection("toy", "ToySettings", after="approvals"),), {"toy": "show what is closed"},
        {"call_layer": "call_layer:Closed"},
    ),
)
"""
BACKEND = """
import ast
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox import registry
from codemode_server.sandbox.contract import Ending, Outcome, SandboxCount
from codemode_server.sandbox.packages.installed import NO_PACKAGES
from codemode_server.sandbox.registry import BackendSpec, Check, Diagnosis

class Literals:
    name, level, importable, build, count = "literals", IsolationLevel.WASM, None, "1", SandboxCount(1, 0)
    packages = NO_PACKAGES

    async def tend(self): ...
    async def aclose(self): ...

    async def run(self, program, host_api):
        program.begun.set()
        call = await host_api.call("google_drive", "get_sheet", {"sheetId": ast.literal_eval(program.code)})
        return Outcome(Ending.RETURNED, value=len(call.value), value_form="json")

class LiteralsSpec(BackendSpec):
    async def diagnose(self, settings, *, boot, announce):
        return Diagnosis((Check("literals", "ok", "they need nothing"),), "literals")

    async def prepare(self, settings, archive, announce): ...

    async def create(self, settings, limits, workspace, packages, announce):
        return Literals()

registry.BACKENDS = (LiteralsSpec("literals", IsolationLevel.WASM, "literal"),)
"""
META_TOOL = """
from codemode_server.mcp_server.tools.registry import (
    READS, TEXT_RESULT, Answer, Description, MetaToolSpec, ToolArguments,
)

class CountArguments(ToolArguments):
    text: str

async def count(arguments, context):
    servers = len(context.product.tools.current().servers)
    text = f"{len(arguments.text)} characters, {servers} server"
    return Answer(text, {"text": text})

META_TOOL = MetaToolSpec(
    name="count", title="Count", arguments=CountArguments, handle=count, annotations=READS, output_schema=TEXT_RESULT,
    describe=lambda settings, servers: Description("Count characters."),
)
"""
ADDED = "from codemode_server.mcp_server import tools\ntools.__path__.append(folder)\n"
COMMAND = "from codemode_server.cli import run\nsys.exit(run([*sys.argv[3:], '--config', file]))\n"
HOST = """
from pathlib import Path
import anyio
from tests.behaviour.product import in_memory

async def main():
    async with in_memory(Path(file)) as host:
        print([it.name for it in (await host.client.list_tools()).tools])
        print((await host.call(sys.argv[3], **{sys.argv[4]: sys.argv[5]})).text)

anyio.run(main)
"""


def said(script: str, folder: Path, file: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", f"import sys\nfolder, file = sys.argv[1:3]\n{script}", str(folder), str(file)]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "added"
    folder.mkdir()
    return folder


def test_a_feature_has_its_section_its_command_and_its_layer(folder: Path, tmp_path: Path) -> None:
    (folder / "toy").mkdir()
    for name, text in FEATURE.items():
        (folder / "toy" / name).write_text(text)
    file = configuration(tmp_path, office(tmp_path, "google_drive"), toy={"closed": ["get_sheet"]})
    assert said(LISTED + COMMAND, folder, file, "toy") == "closed: get_sheet\n"
    assert "toy: unknown key" in said(COMMAND, folder, file, "config", "check"), "control"
    assert "the toy closes it" in said(LISTED + HOST, folder, file, "execute_code", "code", PROGRAM)


def test_a_backend_is_diagnosed_and_runs_programs(folder: Path, tmp_path: Path) -> None:
    file = configuration(tmp_path, office(tmp_path, "google_drive"))
    assert "programs will run in: literals" in said(BACKEND + COMMAND, folder, file, "doctor")
    assert "10000" in said(BACKEND + HOST, folder, file, "execute_code", "code", "'a'")


def test_a_meta_tool_is_listed_and_answers(folder: Path, tmp_path: Path) -> None:
    (folder / "count.py").write_text(META_TOOL)
    file = configuration(tmp_path, office(tmp_path, "google_drive"))
    text = said(ADDED + HOST, folder, file, "count", "text", "four")
    assert "['count', 'list_dir', 'read_tool', 'search_tools', 'execute_code']\n4 characters, 1 server\n" in text
