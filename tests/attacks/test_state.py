"""Threat: what is kept between runs is damaged, can't be written, or belongs to somebody else.

Rule: one sentence that names the file and what to do, no traceback; nothing is sent that can't be recorded, and a cache
that can't be trusted is made anew.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from codemode_server.config import load
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.upstreams.cache import fingerprint
from tests import fork_server
from tests.attacks.kit import arrived, hostile, is_well
from tests.behaviour.product import configuration, in_memory
from tests.database import change
from tests.storage.test_opening import mounted

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


def refused(path: Path) -> bytes:
    """What `serve` says to the person where it can't use its state."""
    done = served(path)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    return done.stderr


def test_a_sound_state_is_served(tmp_path: Path) -> None:
    """The positive control of the refusals below."""
    done = served(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_a_damaged_record_is_told_in_a_sentence(tmp_path: Path) -> None:
    content = b"SQLite format 3\0" + b"\xff" * 5_000
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "codemode.db").write_bytes(content)
    assert b"codemode.db" in refused(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert (tmp_path / "state" / "codemode.db").read_bytes() == content


def test_a_workspace_that_is_a_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "state" / "workspaces").mkdir(mode=0o700, parents=True)
    (tmp_path / "state" / "workspaces" / "default").write_text("x")
    told = refused(configuration(tmp_path, hostile(tmp_path, "plain")))
    assert b"workspaces/default can't be used: Not a directory" in told


async def test_a_full_disk_stops_calls_not_the_product_and_freed_it_goes_on(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
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
            assert "disk is full. Free some disk space; `codemode-server workspace clean`" in answer.text
            assert len(arrived(tmp_path, "plain")) <= before + 1
            assert not (await host.call("list_dir", path="/servers")).result.is_error
            with pytest.raises(JournalUnavailable, match="disk is full"):
                Database(disk / "other")
            filler.unlink()
            await is_well(host)
            assert (await host.run(CALL)).value == "pong"


async def test_a_damaged_listing_is_listed_anew(tmp_path: Path) -> None:
    path = configuration(tmp_path, hostile(tmp_path, "plain"))
    of_another_form = b'{"format":1,"tools":[{"name":"a","effect":"guesses"}],"problems":[]}'
    cipher, place = JournalCipher(tmp_path / "state"), fingerprint(load(path).settings.servers["plain"])
    texts = (b"[" * 100_000, b"\xff", of_another_form)
    packed = [cipher.encrypt(zlib.compress(it), f"listings/plain/{place}") for it in texts]
    for listing in ("", "[" * 100_000, 7, b"\x78 is no text", *packed, None):
        async with in_memory(path) as host:
            assert (await host.run(CALL)).value == "pong"
        if listing is not None:
            assert change(tmp_path / "state", "UPDATE cache SET value = ? WHERE kind = 'listings'", listing) == 1
