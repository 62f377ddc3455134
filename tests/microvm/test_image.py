"""The image gets to this machine from a registry or an archive, without booting anything; by the real `msb`, which
knows no difference between this registry and another."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import image
from codemode_server.sandbox.backends.microvm.image import Stored
from codemode_server.sandbox.registry import DEFAULT_IMAGE
from tests.microvm.images import Image, Registry, digest, serving
from tests.tables import rows, tables

TABLES = tables(__file__)


async def refusal(registry: Registry) -> SandboxUnavailable:
    """Why an image can't be pulled; what failed is always a matter of the moment."""
    with serving(registry), pytest.raises(SandboxUnavailable) as caught:
        await image.pull(registry.reference, lambda line: None)
    assert caught.value.is_temporary
    assert await image.find(registry.reference) is None
    return caught.value


async def test_an_archive_stands_for_the_pinned_image_without_a_network(msb_home: Path, tmp_path: Path) -> None:
    """The settings' own default, digest and all: it need not be written anew for a machine without a network."""
    archive = Image().save_as_oci_layout(tmp_path / "image.tar")
    stored = await image.load_archive(archive, DEFAULT_IMAGE)
    assert stored.reference == DEFAULT_IMAGE
    assert await image.find(DEFAULT_IMAGE) == stored
    assert await image.pull(DEFAULT_IMAGE, print) == stored, "asks no registry for it"


@pytest.mark.parametrize("data", [None, b"", b"x" * 5_000, gzip.compress(b"x", mtime=0)])
async def test_what_is_no_archive_of_an_image_is_told(msb_home: Path, tmp_path: Path, data: bytes | None) -> None:
    archive = tmp_path / "image.tar"
    if data is not None:
        archive.write_bytes(data)
    with pytest.raises(SandboxUnavailable) as caught:
        await image.load_archive(archive, DEFAULT_IMAGE)
    assert caught.value.reason.startswith(f"{archive} is no archive of an image: ")
    assert "not compressed" in caught.value.remedy
    assert "docker save --output image.tar docker.io/library/python:3.14-slim" in caught.value.remedy


async def test_a_registry_on_this_machine_is_pulled_from_over_plain_http(msb_home: Path) -> None:
    lines: list[str] = []
    with serving(Registry(Image((8_000_000, 200_000)), bytes_a_second=4e6)) as registry:
        stored = await image.pull(registry.reference, lines.append)
        asked = len(registry.asked)
        assert await image.pull(registry.reference, lines.append) == stored
        assert len(registry.asked) == asked, "the second time from the cache"
    assert stored == Stored(registry.reference, digest(registry.image.manifest), stored.size_bytes)
    assert 8_200_000 <= stored.size_bytes < 8_300_000
    assert lines == ["pulling the sandbox image"]


def refused(code: str, message: str) -> bytes:
    return f'{{"errors": [{{"code": "{code}", "message": "{message}"}}]}}'.encode()


@pytest.mark.parametrize(
    ("status", "body", "reason", "remedy"),
    [
        (
            404,
            refused("MANIFEST_UNKNOWN", "manifest unknown"),
            "there is no image {reference}",
            "correct sandbox.image",
        ),
        (401, refused("UNAUTHORIZED", "authentication required"), "does not give out", "registry login {host}"),
        (429, refused("TOOMANYREQUESTS", "You have reached your pull rate limit."), "lets nobody pull more", "wait"),
        (500, b"\x1b[2Jbusy", "code: 500, message: busy", "run again: codemode-server setup"),
    ],
)
async def test_what_a_registry_refuses_is_told_with_what_to_do(
    msb_home: Path, status: int, body: bytes, reason: str, remedy: str
) -> None:
    registry = Registry(Image(), status, body)
    error = await refusal(registry)
    assert reason.format(reference=registry.reference) in error.reason
    assert remedy.format(host=registry.host) in error.remedy
    assert "\x1b" not in str(error)


async def test_a_layer_that_is_not_what_the_manifest_says_is_refused(msb_home: Path) -> None:
    error = await refusal(Registry(Image(), corrupt=True))
    assert "can't be pulled" in error.reason


async def test_a_manifest_that_is_not_the_pinned_one_is_refused(msb_home: Path) -> None:
    """The digest in `sandbox.image` is what makes an image nobody's to change."""
    with serving(Registry(Image(), lies=True)) as registry:
        pinned = f"{registry.host}/team/image:1@sha256:{'0a' * 32}"
        with pytest.raises(SandboxUnavailable):
            await image.pull(pinned, print)
    assert await image.find(pinned) is None


@pytest.mark.parametrize(("reference", "answer"), rows(TABLES["references"]))
def test_only_this_machine_is_spoken_to_without_encryption(reference: str, answer: bool) -> None:
    assert image.is_on_this_machine(reference) is answer
