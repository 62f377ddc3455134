"""The product runs without any one of its features: it is removed from the list, and its folder can't be imported."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from codemode_server.features import FEATURES, Feature
from tests import fork_server
from tests.behaviour.product import configuration, office

ROOT = Path(__file__).parent.parent
NEEDED = {
    "changed_tools",  # without it `permissions.changed_tools` and `new_tools` would be read, and would not hold
    "data_flow",  # the same of `permissions.flows`
}
"""Features without which the product does not start; one that goes from this list may not come back."""
REMOVED = """
import sys
from importlib.abc import MetaPathFinder
from codemode_server import features

name, file = sys.argv[1:]

class Removed(MetaPathFinder):
    def find_spec(self, dotted, path=None, target=None):
        if f"{dotted}.".startswith(f"codemode_server.features.{name}."):
            raise ModuleNotFoundError(f"{dotted} is removed")

sys.meta_path.insert(0, Removed())
commands = [command for it in features.FEATURES if it.name == name for command in it.commands]
features.FEATURES = tuple(it for it in features.FEATURES if it.name != name)
"""
COMMANDS = f"""{REMOVED}
from contextlib import suppress
from codemode_server.cli import run

needed = {sorted(NEEDED)}
# `config check` looks whether the product can start here.
missing = (ModuleNotFoundError,) if name in needed else ()
for command in [["config", "check", "--config", file], *([it] for it in commands)]:
    with suppress(SystemExit, *missing):
        run(command)
"""
PROGRAMS = f"""{REMOVED}
OTHERS = [
    ["status"], ["doctor", "--no-boot"], ["executions", "list"], ["permissions", "explain", "google_drive/get_sheet"]
]
from pathlib import Path
import anyio
from tests.behaviour.product import in_memory

async def run():
    async with in_memory(Path(file)) as host:
        print((await host.run("1 + 1")).value)
        call = "from servers.google_drive import get_sheet\\nlen(get_sheet('a'))"
        print((await host.run(call)).value)

anyio.run(run)
from codemode_server.cli import run
print(["failed" for command in OTHERS if run([*command, "--config", file]) not in (0, 1)], file=sys.stderr)
"""


def without(name: str, script: str, file: Path) -> subprocess.CompletedProcess[str]:
    program = file.with_name("without.py")
    program.write_text(script)
    command = fork_server.bare_command(program, name, str(file))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("feature", [it for it in FEATURES if it.sections or it.commands], ids=lambda it: it.name)
def test_its_sections_and_commands_are_unknown(feature: Feature, tmp_path: Path) -> None:
    file = configuration(tmp_path, {}, **{section.key: {} for section in feature.sections})
    said = without(feature.name, COMMANDS, file).stderr
    for section in feature.sections:
        assert f": {section.key}: unknown key" in said, said
    for name in feature.commands:
        assert f"there is no command {name!r}" in said, said


@pytest.mark.parametrize("name", ["none, as a control", *(it.name for it in FEATURES if it.name not in NEEDED)])
def test_programs_run_and_call_tools(name: str, tmp_path: Path) -> None:
    done = without(name, PROGRAMS, configuration(tmp_path, office(tmp_path, "google_drive")))
    assert done.stdout.startswith("2\n10000\n"), done.stderr
    assert "google_drive  ready" in done.stdout
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_what_features_provide_is_asked_for() -> None:
    """A misspelled name would give nothing."""
    texts = [path.read_text() for path in (ROOT / "codemode_server").rglob("*.py")]
    asked = {name for text in texts for name in re.findall(r'(?:create|provided|_layers)[(,]\s*"(\w+)"', text)}
    assert asked == {name for it in FEATURES for name in it.provides} | {"call_layer"}
