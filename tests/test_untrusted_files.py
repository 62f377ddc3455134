"""Folders that programs write are measured and emptied whole, whatever is in them, and nothing outside is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from codemode_server.support.untrusted_files import MIN_ENTRY_BYTES, empty, remove, used_bytes, walk


def nest(folder: Path, levels: int) -> int:
    """Folders in folders, deeper than any path reaches; gives the descriptor of the last one."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("n" * 100, dir_fd=here)
        below = os.open("n" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here


def test_folders_deeper_than_any_path_are_measured_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    deepest = nest(folder, 2_000)
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=deepest))
    os.close(deepest)
    assert used_bytes(folder) == 2_001 * MIN_ENTRY_BYTES
    remove(folder)
    assert not folder.exists()


AS_THE_OWNER = """
import os, sys
from pathlib import Path
from codemode_server.support.untrusted_files import empty, used_bytes
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
folder = Path(sys.argv[1])
closed = folder / "open" / "closed"
closed.mkdir(parents=True)
(closed / "large").write_bytes(bytes(10**6))
closed.chmod(0)
(folder / "open").chmod(0o500)
print(used_bytes(folder) > 10**6)
empty(folder)
print(os.listdir(folder))
"""


def test_folders_that_their_owner_has_closed_are_measured_and_removed() -> None:
    """By a user who is not root, whom a closed folder keeps out."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        command = [sys.executable, "-c", AS_THE_OWNER, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["True", "[]"], "")


def test_what_a_link_points_at_is_neither_counted_nor_removed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "precious").write_bytes(bytes(10**6))
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "precious")
    (folder / "own").write_text("x")
    assert used_bytes(folder) == 3 * MIN_ENTRY_BYTES
    empty(folder)
    assert list(folder.iterdir()) == [], "control: what is inside goes"
    assert (outside / "precious").stat().st_size == 10**6


def test_folders_swapped_for_links_while_they_are_emptied_lead_nowhere(tmp_path: Path) -> None:
    """As a program could do that runs at the same time."""
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    (outside / "below").mkdir(parents=True)
    for number in range(20):
        (outside / str(number)).touch()
        (outside / "below" / str(number)).touch()
    folder.mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in (None, outside):
                for name in ("a", "b", "below"):
                    try:
                        if target is None:
                            (folder / name).mkdir()
                        else:
                            (folder / name).symlink_to(target)
                        (folder / name).rename(folder / "here")
                        (folder / "here").rename(folder / name)
                    except OSError:
                        continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(1_000):
            empty(folder)
    finally:
        stop.set()
        thread.join()
    empty(folder)
    assert list(folder.iterdir()) == []
    assert sum(1 for _ in walk(outside)) == 42
