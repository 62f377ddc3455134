"""`codemode-server logs`: the product's own log, filtered and followed, also over the renaming of its file."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server import logs
from codemode_server.cli import logs as command
from codemode_server.cli import run
from codemode_server.config.live import LiveConfig
from tests.behaviour.product import configuration


def logged(folder: Path, *messages: str) -> Path:
    """Log as a product does; gives the configuration."""
    path = configuration(folder, {})
    logs.start(folder / "state" / "logs", LiveConfig())
    for message in messages:
        logging.getLogger("codemode_server.upstreams.pool").info("%s", message)
    for handler in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()
    return path


async def printed(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert await anyio.to_thread.run_sync(run, ["logs", *arguments, "--config", str(path)]) == 0
    return capsys.readouterr().out.splitlines()


async def test_the_newest_records_are_printed_the_newest_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logged(tmp_path, "one", "two", "three")
    found = await printed(path, capsys, "--lines", "2")
    assert [line.partition(": ")[2] for line in found] == ["two", "three"]


def test_following_goes_on_with_the_next_file(tmp_path: Path) -> None:
    logged(tmp_path, "before")
    place = tmp_path / "state" / "logs" / "codemode.log"
    following = command.followed(place, pause=lambda: steps.pop(0)())

    def append(line: str) -> None:
        with place.open("a") as log:
            log.write(line)

    def rename() -> None:
        place.rename(place.with_name("codemode.log.1"))
        place.touch(mode=0o600)
        append("after\n")

    steps = [lambda: append("now\nhal"), lambda: append("f\n"), rename]
    assert [next(following) for _ in range(3)] == ["now", "half", "after"]
