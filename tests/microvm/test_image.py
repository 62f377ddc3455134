"""The image gets to this machine from a registry or an archive, without booting anything; by the real `msb`, which
knows no difference between this registry and another."""

from __future__ import annotations

import gzip
import shutil
import sys
import time
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import DEFAULT_IMAGE, image
from codemode_server.sandbox.backends.microvm.image import Stored
from codemode_server.sandbox.backends.microvm.pull_progress import PullProgress, run_in_terminal
from tests.microvm.images import MACHINE, OTHER_MACHINE, Image, Registry, digest, serving


async def refusal(registry: Registry) -> SandboxUnavailable:
    """Why an image can't be pulled; what failed is always a matter of the moment."""
    with serving(registry), pytest.raises(SandboxUnavailable) as caught:
        await image.pull(registry.reference, lambda line: None)
    assert caught.value.is_temporary
    assert not await image.is_present(registry.reference)
    return caught.value


async def test_an_archive_of_docker_stands_for_the_pinned_image_without_a_network(
    msb_home: Path, tmp_path: Path
) -> None:
    """The settings' own default, digest and all: it need not be written anew for a machine without a network."""
    archive = Image().save_as_docker_does(tmp_path / "image.tar")
    stored = await image.load_archive(archive, DEFAULT_IMAGE)
    assert (stored.reference, stored.architecture) == (DEFAULT_IMAGE, MACHINE)
    assert await image.find(DEFAULT_IMAGE) == stored
    assert await image.pull(DEFAULT_IMAGE, print) == stored, "asks no registry for it"


@pytest.mark.parametrize("tag", [None, "python:3.14-slim"])
async def test_an_archive_needs_no_tag_of_its_own(msb_home: Path, tmp_path: Path, tag: str | None) -> None:
    archive = Image().save_as_docker_does(tmp_path / "image.tar", tag)
    assert (await image.load_archive(archive, "team/image:2")).reference == "team/image:2"


async def test_an_archive_in_oci_layout_keeps_its_digest(msb_home: Path, tmp_path: Path) -> None:
    made = Image()
    stored = await image.load_archive(made.save_as_oci_layout(tmp_path / "image.tar"), DEFAULT_IMAGE)
    assert stored.digest == digest(made.manifest)
    assert await image.is_present(DEFAULT_IMAGE)


async def test_an_archive_for_another_processor_is_refused_and_forgotten(msb_home: Path, tmp_path: Path) -> None:
    archive = Image(architecture=OTHER_MACHINE).save_as_docker_does(tmp_path / "image.tar")
    with pytest.raises(SandboxUnavailable, match=f"is an image for {OTHER_MACHINE}, and this machine is {MACHINE}"):
        await image.load_archive(archive, DEFAULT_IMAGE)
    assert not await image.is_present(DEFAULT_IMAGE)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "can't be read: No such file or directory"),
        (b"", "is no archive of an image"),
        (b"x" * 5_000, "is no archive of an image"),
        (gzip.compress(b"x", mtime=0), "is compressed; run: gunzip "),
    ],
)
async def test_what_is_no_archive_of_an_image_is_told(
    msb_home: Path, tmp_path: Path, data: bytes | None, told: str
) -> None:
    archive = tmp_path / "image.tar"
    if data is not None:
        archive.write_bytes(data)
    with pytest.raises(SandboxUnavailable) as caught:
        await image.load_archive(archive, DEFAULT_IMAGE)
    assert told in str(caught.value)
    assert str(archive) in str(caught.value)
    if "no archive" in told:
        assert "docker save --output image.tar docker.io/library/python:3.14-slim" in caught.value.remedy


async def test_looking_for_an_image_makes_no_folder(msb_home: Path) -> None:
    assert not await image.is_present(DEFAULT_IMAGE)
    assert not msb_home.exists()  # noqa: ASYNC240


async def test_an_image_whose_files_are_gone_is_not_there(msb_home: Path, tmp_path: Path) -> None:
    """msb's own list goes on naming it."""
    archive = Image().save_as_docker_does(tmp_path / "image.tar")
    await image.load_archive(archive, DEFAULT_IMAGE)
    shutil.rmtree(msb_home / "cache" / "layers")
    assert not await image.is_present(DEFAULT_IMAGE)
    await image.load_archive(archive, DEFAULT_IMAGE)
    assert await image.is_present(DEFAULT_IMAGE)


async def test_a_registry_on_this_machine_is_pulled_from_over_plain_http(msb_home: Path) -> None:
    lines: list[str] = []
    began = time.monotonic()
    with serving(Registry(Image((8_000_000, 200_000)), bytes_a_second=4e6)) as registry:
        stored = await image.pull(registry.reference, lines.append)
        asked = len(registry.asked)
        assert await image.pull(registry.reference, lines.append) == stored
        assert len(registry.asked) == asked, "the second time from the cache"
    assert stored == Stored(registry.reference, digest(registry.image.manifest), MACHINE, stored.size_bytes)
    assert 8_200_000 <= stored.size_bytes < 8_300_000
    assert lines[0] == "pulling the sandbox image"
    assert any(line.startswith("pulling the sandbox image: ") and line.endswith(" of 8 MB") for line in lines)
    assert len(lines) == len(set(lines)) <= time.monotonic() - began + 2


async def test_a_pull_that_is_cancelled_leaves_no_process_and_the_next_one_goes_on(msb_home: Path) -> None:
    with serving(Registry(Image((3_000_000,)), bytes_a_second=5e5)) as registry:
        with anyio.move_on_after(10) as scope:
            await image.pull(registry.reference, lambda line: scope.cancel() if " of 3 MB" in line else None)
        assert scope.cancelled_caught
        assert registry.reference not in running_commands()
        registry.bytes_a_second = 1e9
        assert await image.pull(registry.reference, print)


def running_commands() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


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
        (404, refused("NAME_UNKNOWN", "repository name not known to registry"), "there is no image {reference}", ""),
        (404, b"<html>", "there is no image {reference}", "correct sandbox.image in upstream.yaml"),
        (401, refused("UNAUTHORIZED", "authentication required"), "does not give out", "registry login {host}"),
        (403, refused("DENIED", "requested access to the resource is denied"), "does not give out", "registry login"),
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
    assert error.reason.endswith("is not what it promised")


async def test_a_manifest_that_is_not_the_pinned_one_is_refused(msb_home: Path) -> None:
    """The digest in `sandbox.image` is what makes an image nobody's to change."""
    with serving(Registry(Image(), lies=True)) as registry:
        pinned = f"{registry.host}/team/image:1@sha256:{'0a' * 32}"
        with pytest.raises(SandboxUnavailable):
            await image.pull(pinned, print)
    assert not await image.is_present(pinned)


async def test_an_image_for_another_processor_is_refused(msb_home: Path) -> None:
    assert f"is an image for {OTHER_MACHINE}" in (await refusal(Registry(Image(architecture=OTHER_MACHINE)))).reason


async def test_a_registry_that_is_not_there_is_told_with_both_ways_out(msb_home: Path) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        await image.pull("127.0.0.1:1/team/image:1", print)
    assert caught.value.reason == "the registry 127.0.0.1:1 can't be reached"
    assert "codemode-server setup --archive FILE" in caught.value.remedy
    assert caught.value.is_temporary


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("localhost:5000/a/b:1", True),
        ("localhost/a", True),
        ("127.0.0.1:5000/a", True),
        ("127.8.9.1/a", True),
        ("python", False),
        ("library/python:3.14", False),
        ("docker.io/library/python", False),
        ("localhost.example.com/a", False),
        ("127.0.0.1.example.com/a", False),
        ("10.0.0.1:5000/a", False),
        ("0.0.0.0:5000/a", False),
        ("localhost", False),  # an image of that name on Docker Hub
        ("a/localhost:5000", False),
    ],
)
def test_only_this_machine_is_spoken_to_without_encryption(reference: str, answer: bool) -> None:
    assert image.is_on_this_machine(reference) is answer


@pytest.mark.parametrize(
    "text",
    [
        "error: cache error at /tmp/small/h/cache/tmp/sha256_04c5.part: No space left on device (os error 28)\n",
        "error: connect to /tmp/small/h/db/msb.db: error returned from database: (code: 13) database or disk is full\n",
    ],
)
def test_a_full_disk_is_told_with_what_is_free_and_never_remembered(msb_home: Path, text: str) -> None:
    """What msb 0.7.11 printed on a file system of 3 MB."""
    error = image._pull_failure(DEFAULT_IMAGE, text)
    assert error.reason.startswith(f"the disk that holds {msb_home} is full: ")
    assert "MSB_HOME" in error.remedy
    assert error.is_temporary


BAR = "  ⠙ Pulling             x (3 layers)           "


def test_the_bars_of_a_pull_become_a_few_words_at_most_one_a_second() -> None:
    """The screen of msb 0.7.11, as it is without its colours."""
    now, lines = 0.0, list[str]()
    pulling = PullProgress(lines.append, clock=lambda: now)
    screens = [
        "  ⠋ Resolving           x...",
        f"{BAR}layer 1/3  ╌╌╌╌╌╌  0 B/1 B         layer 2/3  ╌╌╌  0 B/1 B  downloading",
        f"{BAR}layer 1/3  ━╌╌╌╌╌  1.00 MiB/10.00 MiB  downloading     layer 2/3  ╌╌╌  0 B/1 B  downloading",
        "layer 1/3  ━━╌╌╌  2.00 MiB/10.00 MiB  downloading  layer 2/3  ━╌╌  512.00 KiB/1.00 MiB  downloading"
        "  layer 3/3  ━╌╌  0 B/30.00 MiB  downloading",
        "layer 1/3  ━━╌╌╌  7.00 MiB/10.00 MiB  materializing  layer 2/3  ✓"
        "  layer 3/3  ━╌  3.00 MiB/30.00 MiB  downloading",
        "layer 3/3  ━━━  30.00 MiB/30.00 MiB  downloading layer 2/3  ━━━  1.00 MiB/1.00 MiB  writing image",
        "  ✓ Pulled              x (1.9s)",
    ]
    moved = []
    for screen in screens:
        moved.append(pulling.feed(screen))
        pulling.feed(screen)
        now += 1.0
    assert lines == [
        "pulling the sandbox image",
        "pulling the sandbox image: 1 MB",
        "pulling the sandbox image: 3 of 43 MB",
        "pulling the sandbox image: 14 of 43 MB",
        "unpacking the sandbox image",
    ]
    assert moved == [False, True, True, True, True, True, False]


async def test_a_registry_that_falls_silent_is_given_up_and_its_process_ended() -> None:
    with pytest.raises(TimeoutError):
        await run_in_terminal(
            ["sh", "-c", "exec sleep 987"], {"PATH": "/usr/bin:/bin"}, lambda text: False, stalled_seconds=0.2
        )
    assert "sleep 987" not in running_commands()


@pytest.mark.parametrize("handling", ["SIG_DFL", "SIG_IGN"], ids=["usual", "started by nohup"])
async def test_a_pull_ends_with_a_product_that_is_killed(handling: str, tmp_path: Path) -> None:
    """It went on downloading, beside the pull of the next product."""
    product = tmp_path / "product.py"
    product.write_text(
        "import anyio, signal\n"
        f"signal.signal(signal.SIGHUP, signal.{handling})\n"
        "from codemode_server.sandbox.backends.microvm.pull_progress import run_in_terminal\n"
        "def moved(text):\n    print(text, flush=True)\n    return True\n"
        "command = ['sh', '-c', 'echo started >&2; exec sleep 986']\n"
        "anyio.run(run_in_terminal, command, {'PATH': '/usr/bin:/bin'}, moved)\n"
    )
    running = await anyio.open_process([sys.executable, str(product)], stderr=None)
    assert running.stdout is not None
    with anyio.fail_after(20):
        assert b"started" in await running.stdout.receive()
        while "sleep 986" not in running_commands():
            await anyio.sleep(0.02)
        running.kill()
        await running.wait()
        while "sleep 986" in running_commands():
            await anyio.sleep(0.02)
    await running.aclose()


async def test_a_command_sees_a_terminal_and_its_last_words_and_exit_code_come_back() -> None:
    code, text = await run_in_terminal(
        ["sh", "-c", "test -t 2 && printf '\\033[31mred\\033[0m' >&2; exit 7"],
        {"PATH": "/usr/bin:/bin"},
        lambda text: True,
    )
    assert (code, text) == (7, "red")
