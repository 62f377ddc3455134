"""`setup` fetches ahead what the first program would wait for; `status` then tells which sandbox that program gets.
Neither needs virtualization; both are child processes here, and the registry is a real one on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import platformdirs
import pytest

from codemode_server.sandbox.backends.microvm import image, runtime
from codemode_server.sandbox.registry import DEFAULT_IMAGE
from tests.cli.test_commands import Run, command
from tests.microvm.images import Image, digest

pytestmark = pytest.mark.slow


def run(folder: Path, msb_home: Path, line: str, sandbox: str = "{backend: microsandbox}", **environment: str) -> Run:
    (folder / "upstream.yaml").write_text(f"sandbox: {sandbox}\n")
    return command(folder, f"--config upstream.yaml {line}", environment={"MSB_HOME": str(msb_home), **environment})


def test_the_image_comes_from_an_archive_without_a_network(tmp_path: Path, msb_home: Path) -> None:
    made = Image()
    made.save_as_oci_layout(tmp_path / "image.tar")
    done = run(tmp_path, msb_home, "setup --archive image.tar")
    assert (done.code, done.stderr) == (0, "codemode-server: loading image.tar\n")
    assert done.stdout == (
        f"image: {DEFAULT_IMAGE} loaded from image.tar, 0.0 MB; its own digest is {digest(made.manifest)}, and it "
        "stands for the pinned one because you gave it\n"
    )
    again = run(tmp_path, msb_home, "setup")
    assert again == Run(0, f"image: {DEFAULT_IMAGE} was here already, 0.0 MB\n", "")
    assert f"\nimage           ok       {DEFAULT_IMAGE}, 0.0 MB\n" in run(tmp_path, msb_home, "doctor --no-boot").stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "setup",
            "image: the registry 127.0.0.1:1 can't be reached; run again: codemode-server setup",
        ),
        ("setup --archive upstream.yaml", "image: upstream.yaml is no archive of an image: "),
    ],
)
def test_what_can_not_be_fetched_is_told_with_what_to_do(tmp_path: Path, msb_home: Path, line: str, told: str) -> None:
    done = run(tmp_path, msb_home, line, "{backend: microsandbox, image: '127.0.0.1:1/team/image:1'}")
    assert done.code == 1
    assert done.stdout.startswith(told)
    assert anyio.run(image.find, "127.0.0.1:1/team/image:1") is None


@pytest.mark.skipif(sys.platform == "darwin", reason="there no variable moves the cache folder")
def test_where_no_microvm_can_run_no_image_is_fetched_unless_it_is_asked_for(tmp_path: Path, msb_home: Path) -> None:
    problem = anyio.run(runtime.virtualization)
    if problem is None:
        pytest.skip("this machine runs microVMs")
    cache = str(Path(platformdirs.user_cache_dir("x")).parent)
    done = run(tmp_path, msb_home, "setup", "{image: '127.0.0.1:1/team/image:1'}", XDG_CACHE_HOME=cache)
    assert (done.code, done.stdout.splitlines()[0]) == (
        0,
        f"image: not needed, since no microVM can run here: {problem.reason}",
    )
    asked_for = run(tmp_path, msb_home, "setup", "{image: '127.0.0.1:1/team/image:1', require: microvm}")
    assert "can't be reached" in asked_for.stdout
