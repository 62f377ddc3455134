"""Folders of the product's own: what another user made, could write to, or linked elsewhere is refused or tightened.

Another user's folders are made by changing their owner, so those tests need root.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from codemode_server.support.private_files import (
    NotPrivate,
    check_file,
    open_private,
    others_may_read,
    private_folder,
    private_subfolder,
    replace_private,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of Windows are in the user's profile")
ROOT = Path(__file__).parents[1]
SOMEBODY = 54_321
needs_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can make another user's files"
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_its_owners_only(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b")
        inner = private_subfolder(folder, "c", "d")
        os.close(open_private(inner / "file", os.O_CREAT | os.O_WRONLY))
    finally:
        os.umask(umask)
    assert [mode(tmp_path / "a"), mode(folder), mode(inner.parent), mode(inner)] == [0o700] * 4
    assert mode(inner / "file") == 0o600


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_first_writers_the_first_ones_content_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")  # as FAT says

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    for content in (b"first", b"second"):
        replace_private(tmp_path / "key", content, keeps_existing=True)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_an_own_folder_that_others_could_use_is_tightened(tmp_path: Path) -> None:
    for name in ("strict", "readable", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    private_folder(tmp_path / "strict")
    private_folder(tmp_path / "readable", is_readable=True)
    private_subfolder(tmp_path, "inner")
    assert mode(tmp_path / "strict") == 0o700
    assert mode(tmp_path / "readable") == 0o755
    assert mode(tmp_path / "inner") == 0o700


def test_the_persons_own_links_above_the_folder_are_followed(tmp_path: Path) -> None:
    """`~/.local/share`, or the state folder itself, may be a link to another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "share").symlink_to("disk")
    (tmp_path / "state").symlink_to(tmp_path / "share" / ".." / "share" / "state")
    assert private_folder(tmp_path / "state") == tmp_path / "disk" / "state"


def test_no_link_is_followed_within_a_private_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "workspaces").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").symlink_to("target/file")
    for name in ("workspaces", "dangling"):
        with pytest.raises(NotPrivate, match="is a link"):
            private_subfolder(tmp_path, name)
    with pytest.raises(NotPrivate, match="is a link"):
        open_private(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    with pytest.raises(NotPrivate, match="is a link"):
        check_file(tmp_path / "file")
    assert list((tmp_path / "target").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(NotPrivate, match="is no regular file"):
        open_private(tmp_path / "file", os.O_RDONLY)


def test_a_folder_above_that_others_may_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    """In a sticky folder, such as /tmp, nobody can exchange what is another's."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(NotPrivate) as refused:
        private_folder(shared / "state", "state.dir")
    assert str(refused.value) == (
        f"'{shared / 'state'}' can't be used: others may write to '{shared}'; run: chmod go-w {shared}, "
        "or set state.dir to another folder"
    )
    assert not (shared / "state").exists()
    shared.chmod(0o1777)
    assert private_folder(shared / "state") == shared / "state"


@needs_root
def test_a_link_or_file_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert private_folder(tmp_path / "link") == tmp_path / "real", "the control: it is this user's own"
    os.lchown(tmp_path / "link", SOMEBODY, SOMEBODY)
    with pytest.raises(NotPrivate, match=f"the link '.*' belongs to uid {SOMEBODY}; remove it"):
        private_folder(tmp_path / "link")
    (tmp_path / "file").write_text("x")
    os.chown(tmp_path / "file", SOMEBODY, SOMEBODY)
    with pytest.raises(NotPrivate, match=f"belongs to uid {SOMEBODY}"):
        open_private(tmp_path / "file", os.O_RDONLY)


@needs_root
@pytest.mark.parametrize(("variable", "outcome"), [("KUBERNETES_SERVICE_HOST", "used"), ("OTHER", "others may write")])
def test_a_volume_of_a_pod_may_be_open_to_all(variable: str, outcome: str) -> None:
    """An emptyDir belongs to root and has mode 0777; the process is somebody else."""
    code = """
        import os, sys
        from pathlib import Path
        from codemode_server.support.private_files import NotPrivate, private_folder
        os.setgid(54321)
        os.setuid(54321)
        try:
            private_folder(Path(sys.argv[1]))
            print("used")
        except NotPrivate as error:
            print(error)
        """
    with tempfile.TemporaryDirectory() as volume:
        Path(volume).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), f"{volume}/state"],
            env={"PYTHONPATH": str(ROOT), variable: "10.0.0.1"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert outcome in done.stdout


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "is_readable"),
    [(0o600, 0o755, False), (0o644, 0o755, True), (0o644, 0o700, False), (0o604, 0o711, True)],
)
def test_a_file_is_readable_by_others_only_through_folders_that_are(
    file_mode: int, folder_mode: int, is_readable: bool
) -> None:
    with tempfile.TemporaryDirectory() as top:  # `tmp_path` is within a folder that others can't enter
        Path(top).chmod(0o755)
        folder = Path(top) / "folder"
        folder.mkdir()
        (folder / ".env").write_text("KEY=value")
        (folder / ".env").chmod(file_mode)
        folder.chmod(folder_mode)
        assert others_may_read(folder / ".env") == is_readable
