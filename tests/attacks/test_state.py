"""Threat: what is kept between runs is damaged, can't be written, or belongs to somebody else.

Rule: one sentence that names the file and what to do, no traceback; nothing is sent that can't be recorded, and a cache
that can't be trusted is made anew.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.contract import Limits, Program
from tests import fork_server
from tests.attacks.kit import arrived, hostile, is_well
from tests.behaviour.product import configuration, in_memory
from tests.sandbox.lab import Tools

pytestmark = pytest.mark.slow

CALL = "from servers.plain import act\nact(how='ping')"


def served(path: Path) -> subprocess.CompletedProcess[bytes]:
    """`serve`, with a host that is gone at once."""
    return subprocess.run(
        fork_server.command("-m", "codemode_server", "--config", str(path)),
        input=b"",
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        check=False,
    )


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_sound_state_is_served(tmp_path: Path) -> None:
    """The positive control of the refusals below."""
    done = served(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5_000, os.urandom(4_096)]
)
def test_a_damaged_record_is_told_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "codemode.db").write_bytes(content)
    done = served(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert b"codemode.db" in done.stderr
    assert (tmp_path / "state" / "codemode.db").read_bytes() == content


def test_a_damaged_record_is_set_aside_if_the_configuration_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "codemode.db").write_bytes(b"no database at all")
    state = {"dir": str(tmp_path / "state"), "on_damage": "set_aside"}
    done = served(configuration(tmp_path, hostile(tmp_path, "plain"), state=state))
    assert done.returncode == 0
    (aside,) = (tmp_path / "state").glob("codemode.db.set-aside-*")
    assert aside.read_bytes() == b"no database at all"
    assert aside.name.encode() in b"".join(done.stderr.split()), "the log wraps a long path"


def test_a_state_folder_that_is_a_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    done = served(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert b"state" in done.stderr


@pytest.mark.parametrize("name", ["workspaces", "workspaces/default"])
def test_a_workspace_that_is_a_file_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    file = tmp_path / "state" / name
    file.parent.mkdir(mode=0o700, parents=True)
    file.write_text("x")
    done = served(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert b"workspaces/default can't be used: Not a directory" in done.stderr


def test_a_state_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = served(configuration(tmp_path, hostile(tmp_path, "plain"), state={"dir": str(disk / "state")}))
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert b"state" in done.stderr


async def test_a_record_that_is_damaged_meanwhile_stops_calls_not_the_product(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "plain"))) as host:
        assert (await host.run(CALL)).value == "pong"
        with sqlite3.connect(tmp_path / "state" / "codemode.db") as connection:
            connection.execute("DROP TABLE journal_calls")
        connection.close()
        answer = await host.run(CALL)
        assert answer.content["status"] != "succeeded"
        assert "recorded" in answer.text
        assert "internal error" not in answer.text
        assert arrived(tmp_path, "plain") == ["act"], "nothing was sent that could not be recorded"
        await is_well(host)


async def test_a_full_disk_stops_calls_not_the_product_and_freed_it_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = configuration(tmp_path, hostile(tmp_path, "plain"), state={"dir": str(disk / "state")})
        async with in_memory(path) as host:
            assert (await host.run(CALL)).value == "pong"
            filler = disk / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    pass
            before = len(arrived(tmp_path, "plain"))
            answer = None
            for _ in range(200):
                answer = await host.run(CALL)
                if answer.content["status"] != "succeeded":
                    break
                before = len(arrived(tmp_path, "plain"))
            assert answer is not None
            assert answer.content["status"] != "succeeded"
            assert "internal error" not in answer.text
            assert "disk" in answer.text
            assert len(arrived(tmp_path, "plain")) <= before + 1
            assert not (await host.call("list_dir", path="/servers")).result.is_error
            filler.unlink()
            await is_well(host)
            assert (await host.run(CALL)).value == "pong"


async def test_a_state_folder_that_is_removed_stops_calls_not_the_product(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, hostile(tmp_path, "plain"))) as host:
        assert (await host.run(CALL)).value == "pong", "control"
        (tmp_path / "state").rename(tmp_path / "gone")
        answer = await host.run(CALL)
        assert answer.content["status"] != "succeeded"
        assert "was moved or removed while codemode-server was running" in answer.text
        assert arrived(tmp_path, "plain") == ["act"], "nothing was sent that could not be recorded"
        assert not (await host.call("list_dir", path="/servers")).result.is_error


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration whose state folder has the listing that an earlier product stored."""
    folder = tmp_path_factory.mktemp("listed")
    path = configuration(folder, hostile(folder, "plain"))

    async def list_once() -> None:
        async with in_memory(path) as host:
            await is_well(host)

    anyio.run(list_once)
    return path


@pytest.mark.parametrize(
    "listing",
    [
        "",
        "null",
        "[" * 100_000,
        '{"format":1,"tools":7}',
        '{"format":1,"tools":[{"name":"a","input_schema":"x","effect":"reads"}],"problems":[]}',
        '{"format":1,"tools":[{"name":"a","effect":"eats"}],"problems":[]}',
        '{"format":1,"tools":[],"problems":7}',
        '{"format":1,"tools":[],"problems":[],"protocol_mode":"guilty"}',
    ],
)
async def test_a_damaged_listing_is_listed_anew(listed: Path, listing: str) -> None:
    with sqlite3.connect(listed.parent / "state" / "codemode.db") as connection:
        assert connection.execute("UPDATE listings SET listing = ?", (listing,)).rowcount == 1
    connection.close()
    async with in_memory(listed) as host:
        assert (await host.run(CALL)).value == "pong"


async def test_native_code_that_somebody_changed_or_could_change_is_made_anew(tmp_path: Path) -> None:
    """The real native code is copied, so that nothing has to be compiled but where it is refused."""
    from codemode_server.sandbox.backends.wasm import component

    cache = tmp_path / "cache"
    cache.mkdir()
    real = component.cache_folder() / f"{component._key(component.checked_component())}.cwasm"
    assert real.is_file(), "made by the tests before"
    kept, digest = cache / real.name, cache / f"{real.name}.sha256"

    def copy(content: bytes | None = None, mode: int = 0o600, folder_mode: int = 0o700) -> None:
        for path in (kept, digest):
            path.unlink(missing_ok=True)
        kept.write_bytes(real.read_bytes() if content is None else content)
        digest.write_bytes(real.with_name(digest.name).read_bytes())
        kept.chmod(mode)
        digest.chmod(0o600)
        cache.chmod(folder_mode)

    copy()
    assert component._is_sound(kept)
    copy(mode=0o666)
    assert not component._is_sound(kept)
    copy(content=b"\x7fELF" + bytes(1_000))
    assert not component._is_sound(kept)
    kept.unlink()
    kept.symlink_to(real)
    assert not component._is_sound(kept)
    copy(folder_mode=0o777)
    async with WasmBackend(cache=cache) as backend:
        assert cache.stat().st_mode & 0o777 == 0o700
        with anyio.fail_after(60):
            outcome = await backend.run(Program(ExecutionId("x0"), "6 * 7", Limits()), Tools())
        assert outcome.value == 42
