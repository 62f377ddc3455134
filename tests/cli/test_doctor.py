"""`doctor` says where programs run, and changes nothing; a machine that lacks something is made by a bad MSB_HOME."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemode_server.sandbox.backends.microvm import runtime
from codemode_server.sandbox.registry import DEFAULT_IMAGE
from tests.cli.test_commands import Run, command

CHECKS = [
    "platform",
    "microsandbox",
    "virtualization",
    "MSB_HOME",
    "image",
    "boot",
    "wasm",
    "database",
    "search",
    "guardrails",
    "privacy",
]


def run(folder: Path, msb_home: Path, sandbox: str, line: str = "doctor") -> Run:
    (folder / "upstream.yaml").write_text(f"sandbox: {sandbox}\nsearch: {{ranker: lexical}}\n")
    return command(folder, f"--config upstream.yaml {line}", environment={"MSB_HOME": str(msb_home)})


def rows(done: Run) -> dict[str, tuple[str, str]]:
    """Each check's state and what is told of it."""
    table = done.stdout.partition("\n\n")[0]
    split = [line.split(maxsplit=2) for line in table.split("\n")]
    return {name: (state, told) for name, state, told in split}


def destination(done: Run) -> str:
    return done.stdout.split("programs will run in: ")[1].split("\n")[0]


async def test_each_check_has_a_line_and_what_falls_short_a_remedy(tmp_path: Path, msb_home: Path) -> None:
    """There is no image in this home, so nothing boots, whatever the machine."""
    done = run(tmp_path, msb_home, "{}")
    found = rows(done)
    assert (done.code, done.stderr) == (0, "")
    assert list(found) == CHECKS
    assert found["microsandbox"][1].startswith(f"{runtime.version()}, ")
    assert found["MSB_HOME"][1].startswith(f"{msb_home}, ")
    assert found["boot"][0] == "skipped"
    problem = await runtime.virtualization()
    if problem is None:
        assert found["virtualization"][0] == "ok"
        assert found["image"] == ("missing", f"{DEFAULT_IMAGE} is not on this machine yet")
        assert "\n  image: codemode-server setup" in done.stdout
        assert "once the image is pulled" in destination(done)
    else:
        assert problem.reason == found["virtualization"][1]
        assert problem.remedy in done.stdout
        assert found["image"] == ("skipped", "not needed, since programs run in no microVM here")
        assert "image: codemode-server setup" not in done.stdout, "`setup` fetches an image only where one can boot"
        assert destination(done) == f"wasm, since no microVM can be had: {problem.reason}"
    assert not msb_home.exists(), "nothing is made by looking"  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("sandbox", "code", "told"),
    [
        ("{}", 0, "wasm, since no microVM can be had: "),
        ("{backend: wasm}", 0, "wasm"),
        ("{backend: microsandbox}", 1, "nothing, since `sandbox.backend: microsandbox` can't be met as things are"),
        ("{require: microvm}", 1, "nothing, since `sandbox.require: microvm` can't be met as things are"),
    ],
)
def test_a_machine_without_microvms_is_well_unless_they_are_asked_for(
    tmp_path: Path, msb_home: Path, sandbox: str, code: int, told: str
) -> None:
    msb_home.write_text("in the way")
    done = run(tmp_path, msb_home / "home", sandbox)
    assert (done.code, done.stderr) == (code, "")
    assert rows(done)["MSB_HOME"] == (
        "failed",
        f"the folder {msb_home}/home (MSB_HOME) can't be written: Not a directory",
    )
    assert destination(done).startswith(told)
    assert ("\n  MSB_HOME: set MSB_HOME in the environment" in done.stdout) == (sandbox != "{backend: wasm}")
