"""Programs as models write them, 55 of them, through the whole product against a real upstream.

What each prints is compared with what the same program prints on this Python, with `servers.github` stood in for by
the upstream's own functions. numpy and pandas are not in the WebAssembly sandbox; that has to be said clearly.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PROGRAMS

from .product import UPSTREAMS, configuration, in_memory, office

MISSING = {"numpy", "pandas"}
DIFFERENT = {
    "tool-exception": "the upstream's server puts its own words before the message",
    "open-file": "another /tmp",
}
STAND_IN = """
import contextlib, io, json, os, sys, types
sys.path.insert(0, sys.argv[1])
os.environ["OFFICE_LOG"] = os.devnull
import office
class Server:
    def tool(self, description): return lambda function: setattr(module, function.__name__, function) or function
servers, module = types.ModuleType("servers"), types.ModuleType("servers.github")
sys.modules.update({"servers": servers, "servers.github": module})
office.github(Server())
printed = {}
for name, code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.suppress(Exception):
            exec(compile(code, "program.py", "exec"), {"__name__": "__main__"})
            printed[name] = out.getvalue()
json.dump(printed, sys.stdout)
"""
"""Runs every program that this Python can run as it stands, and gives what each printed."""


def printed_here() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", STAND_IN, str(UPSTREAMS)],
        input=json.dumps(PROGRAMS),
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    printed: dict[str, str] = json.loads(done.stdout)
    return printed


@pytest.mark.slow
async def test_each_prints_what_it_prints_outside(tmp_path: Path) -> None:
    expected = printed_here()
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"))) as host:
        wrong: dict[str, str] = {}
        for name, code in PROGRAMS:
            answer = await host.run(code)
            if name in MISSING:
                if f"no module named '{name}'" not in answer.text.lower() or "standard library" not in answer.text:
                    wrong[name] = answer.text
            elif answer.content["status"] != "succeeded":
                wrong[name] = answer.text
            elif name in expected and name not in DIFFERENT and answer.content.get("stdout", "") != expected[name]:
                wrong[name] = f"{answer.content.get('stdout')!r} in place of {expected[name]!r}"
    assert not wrong
    assert len(set(expected) - set(DIFFERENT)) >= 45, "control: there was something to compare with"
