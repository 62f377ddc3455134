"""A registry as companies run it, pulled from for real: nothing is booted, so this runs on every machine.

What only a registry that misbehaves can show is in test_image.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import image
from codemode_server.sandbox.backends.microvm.image import Stored
from scripts.vm import parts
from tests.microvm.images import MACHINE, Image
from tests.microvm.registry import Registry, program, serving

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Skips where it can't be had, but not in CI on a Debian, where that would go unnoticed for ever."""
    try:
        found = program()
    except parts.Unavailable as reason:
        if os.environ.get("CI") == "true" and shutil.which("apt-get"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))
    with serving(found, tmp_path_factory.mktemp("registry")) as served:
        yield served


async def test_an_image_that_was_pushed_is_pulled_whole(registry: Registry, msb_home: Path, tmp_path: Path) -> None:
    made = Image(sizes=(3_000_000, 1_000))
    digest = registry.push(made.save_as_docker_does(tmp_path / "image.tar"), "team/image:1")
    reference = f"{registry.host}/team/image:1"
    assert not await image.is_present(reference)
    told: list[str] = []
    stored = await image.pull(reference, told.append)
    assert stored == Stored(reference, digest, MACHINE, stored.size_bytes)
    assert stored.size_bytes > 3_000_000
    assert told[0] == "pulling the sandbox image"
    assert await image.find(reference) == stored


async def test_a_pinned_image_is_the_one_that_was_pinned_whatever_the_tag_says_now(
    registry: Registry, msb_home: Path, tmp_path: Path
) -> None:
    pinned = registry.push(Image().save_as_docker_does(tmp_path / "first.tar"), "team/moving:1")
    newer = registry.push(Image().save_as_docker_does(tmp_path / "second.tar"), "team/moving:1")
    assert newer != pinned
    stored = await image.pull(f"{registry.host}/team/moving:1@{pinned}", lambda line: None)
    assert stored.digest == pinned
    assert (await image.pull(f"{registry.host}/team/moving:1", lambda line: None)).digest == newer


async def test_what_the_registry_does_not_have_is_told(registry: Registry, msb_home: Path) -> None:
    reference = f"{registry.host}/team/nothing:1"
    with pytest.raises(SandboxUnavailable) as caught:
        await image.pull(reference, lambda line: None)
    assert str(caught.value) == f"there is no image {reference}; correct sandbox.image in upstream.yaml"


FIRST_USE = """
import anyio, sys
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import machine, runtime
from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend
from codemode_server.settings import LimitSettings, SandboxSettings
async def main():
    if await runtime.doctor():  # Nothing boots here, however long it tries: two attempts took 20 s of CPU.
        machine._BOOT_SECONDS = 2
    backend = MicrovmBackend(SandboxSettings(image=sys.argv[1]), LimitSettings(), None, announce=print)
    try:
        await backend.start()
    except SandboxUnavailable as error:
        print("refused:", error)
    finally:
        await backend.aclose()
anyio.run(main)
"""


@pytest.mark.slow
def test_the_first_use_pulls_the_image_and_says_so(registry: Registry, msb_home: Path, tmp_path: Path) -> None:
    """The image has no Python, so whether a microVM boots here or not, there is none in the end."""
    registry.push(Image().save_as_docker_does(tmp_path / "image.tar"), "team/first:1")
    command = [sys.executable, "-c", FIRST_USE, f"{registry.host}/team/first:1"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True).stdout.splitlines()
    assert told[0] == "pulling the sandbox image"
    assert told[-2] == "the sandbox image is there"
    assert told[-1].startswith("refused:")
