"""Threat: a program leaves something in /workspace that harms who comes after it: the host that lists and reads it for
the model, the next program.

Rule: the host follows no link, opens nothing but plain files, shows names cleaned, and measures and removes what is
there however deep it is.
"""

# ruff: noqa: ASYNC240 - the files are small

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import anyio
import pytest

from codemode_server.executions.workspace import FOLDERS
from tests.attacks.kit import is_well
from tests.behaviour.product import configuration, in_memory

pytestmark = pytest.mark.slow

CANARY = "canary-of-the-host-31"


def config(folder: Path) -> Path:
    return configuration(folder, {})


def workspace(folder: Path) -> Path:
    made = folder / "state" / "workspaces" / "default"
    made.mkdir(parents=True, exist_ok=True)
    return made


async def test_links_are_not_followed_whoever_looks(tmp_path: Path) -> None:
    (tmp_path / "canary.txt").write_text(CANARY)
    folder = workspace(tmp_path)
    (folder / "file").symlink_to(tmp_path / "canary.txt")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "etc").symlink_to("/etc")
    (folder / "own").write_text("own")
    (folder / "inner").symlink_to("own")
    async with in_memory(config(tmp_path)) as host:
        made = await host.run("import os\nos.symlink('../../../canary.txt', '/workspace/up')\nos.listdir('/workspace')")
        assert {"file", "up"} <= set(made.value)
        texts = []
        for name in ("file", "folder/canary.txt", "etc/passwd", "up", "inner", "folder", "etc"):
            for tool in ("read_tool", "list_dir"):
                answer = await host.call(tool, path=f"/workspace/{name}")
                assert answer.result.is_error, (tool, name)
                texts.append(answer.text)
        assert CANARY not in "".join(texts)
        assert "root:" not in "".join(texts)
        listed = (await host.call("list_dir", path="/workspace")).text
        assert "etc/" not in listed, "a link is no folder"
        assert (await host.call("read_tool", path="/workspace/own")).text == "# /workspace/own\nown", "the control"
        answer = await host.run("[open('/workspace/' + n).read() for n in ('folder/canary.txt',)]")
        assert answer.content["status"] == "failed"
        assert CANARY not in answer.text


async def test_a_program_writes_through_no_link_that_leads_out_of_the_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = workspace(tmp_path)
    (folder / "state").symlink_to(outside)
    (folder / "sessions").symlink_to(tmp_path / "nowhere")
    async with in_memory(config(tmp_path)) as host:
        await is_well(host)
        for path in ("state/x", "sessions"):
            answer = await host.run(f"open('/workspace/{path}', 'w').write('x')")
            assert answer.content["status"] == "failed"
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


async def test_pipes_and_devices_hold_nobody_up(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "plain").write_text("plain")
    if os.getuid() == 0:
        os.mknod(folder / "zero", 0o20666, os.makedev(1, 5))
    async with in_memory(config(tmp_path)) as host:
        with anyio.fail_after(60):
            for name in ("pipe", "zero"):
                assert (await host.call("read_tool", path=f"/workspace/{name}")).result.is_error
            assert "pipe" in (await host.call("list_dir", path="/workspace")).text
        assert (await host.run("open('/workspace/plain').read()")).value == "plain"


async def test_a_folder_swapped_for_a_link_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    """As a program could do that runs beside; faster from outside."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text(CANARY)
    folder = workspace(tmp_path)
    (folder / "real").mkdir()
    (folder / "real" / "file").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "outside")
    stop = threading.Event()

    def swap() -> None:
        here = folder / "here"
        while not stop.is_set():
            for name in ("real", "link"):
                (folder / name).rename(here)
                time.sleep(0)
                here.rename(folder / name)

    thread = threading.Thread(target=swap)
    async with in_memory(config(tmp_path)) as host:
        thread.start()
        try:
            texts = []
            for _ in range(300):
                texts.append((await host.call("read_tool", path="/workspace/here/file")).text)
                texts.append((await host.call("list_dir", path="/workspace/here")).text)
        finally:
            stop.set()
            thread.join()
        assert any("mine" in text for text in texts), "it was there at times"
        assert not any(CANARY in text for text in texts)


async def test_names_are_shown_on_one_line_and_clean(tmp_path: Path) -> None:
    names = [
        "two\nlines",
        "\x1b[31mred\x1b[0m",
        "left\u202etxt.exe",
        "tab\there",
        "\u00e9" * 120,
        "-rf",
    ]
    folder = workspace(tmp_path)
    (Path(os.fsencode(folder).decode()) / "ordinary.txt").write_text("x")
    Path(os.fsdecode(os.fsencode(folder) + b"/bytes-\xff\xfe")).write_text("x")
    async with in_memory(config(tmp_path)) as host:
        await host.run(f"for name in {names!r}: open('/workspace/' + name, 'w').write('x')")
        text = (await host.call("list_dir", path="/workspace")).text
        assert len(text.splitlines()) == 1 + len(names) + 2 + len(FOLDERS)
        assert "ordinary.txt" in text
        assert not any(unfit in text for unfit in ("\x1b", "\u202e", "\t", "\udcff"))
        text.encode()
