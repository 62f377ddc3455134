"""A transport to upstreams is one file in `upstreams/transports/`: settings, commands and connections find it there.

The file of a toy transport is put beside the real ones for a process of its own; it connects to a server of that
process, which has one tool for each word of its setting.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.config.settings import ServerSettings
from codemode_server.upstreams.transports.registry import ServerCommon, transports
from tests.behaviour.product import configuration

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOY = '''
from mcp.server.mcpserver import MCPServer

from codemode_server.support.setting_types import Section
from codemode_server.upstreams.transports.questions import MemoryTransport
from codemode_server.upstreams.transports.registry import TransportSpec


class ToySettings(Section):
    words: str | None = None
    """Names of the tools that the toy has."""


def connect(settings, deps):
    server = MCPServer("toy")
    for word in settings.words.split():
        server.add_tool(lambda: word, name=word)
    return MemoryTransport(server)


TRANSPORT = TransportSpec(
    selector="words",
    meaning="names of tools",
    settings_model=ToySettings,
    connect=connect,
    identity=lambda settings: [settings.words],
)
'''
MAIN = """
import sys
import codemode_server.upstreams.transports as transports
transports.__path__.append(sys.argv.pop(1))
from codemode_server.__main__ import main
main()
"""


def run(folder: Path, line: str, server: dict[str, Any]) -> tuple[int, str, str]:
    """`codemode-server` with the toy among its transports."""
    (folder / "more").mkdir()
    (folder / "more" / "toy.py").write_text(TOY)
    configuration(folder, {"toy": server}, sandbox={"backend": "wasm"})
    done = subprocess.run(
        [sys.executable, "-c", MAIN, str(folder / "more"), "--config", "upstream.yaml", *line.split()],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_server_with_its_setting_is_connected_over_it(tmp_path: Path) -> None:
    code, stdout, stderr = run(tmp_path, "status", {"words": "one two"})
    assert (code, stderr) == (0, "")
    assert stdout.splitlines()[1].split()[:4] == ["toy", "ready", "2026-07-28", "2"]


def test_a_server_without_any_is_answered_with_all_that_there_are(tmp_path: Path) -> None:
    code, _, stderr = run(tmp_path, "config check", {"timeout": 5})
    assert code == 2
    assert (
        "give either `command` (a program to start), `url` (a server that runs already) or `words` (names of tools)"
    ) in stderr


def test_no_two_transports_have_a_setting_of_one_name() -> None:
    own = [name for spec in transports() for name in spec.settings_model.model_fields]
    assert sorted(own) == sorted(ServerSettings.model_fields.keys() - ServerCommon.model_fields.keys())
