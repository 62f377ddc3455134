"""Threat: another user of the machine made the state folder, or put a link into it, before the product used it.

Rule: nothing is read, written or created through it; the command ends with a message that says what mends it. Another
user's files are made by changing their owner, so those tests need root.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from codemode_server.domain.errors import JournalUnavailable, MetaToolError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.artifacts import ArtifactStore, Item, NotStored
from codemode_server.executions.workspace import Workspace
from codemode_server.storage.database import Database
from codemode_server.storage.sqlite import FILE_NAME
from codemode_server.support.private_files import NotPrivate
from tests.attacks.kit import hostile
from tests.attacks.test_state import served
from tests.behaviour.product import configuration, in_memory

SOMEBODY = 54_321
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make another user's files"
)


def victim(folder: Path) -> Path:
    """A folder of the person's, with a file that a program must not see."""
    target = folder / "documents"
    target.mkdir()
    (target / "diary.txt").write_text("private")
    return target


@needs_root
def test_a_state_folder_that_another_user_made_is_not_used(tmp_path: Path) -> None:
    path = configuration(tmp_path, hostile(tmp_path, "plain"))
    assert served(path).returncode == 0, "the control: the product makes it itself"
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", SOMEBODY, SOMEBODY)
    done = served(path)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert f"belongs to uid {SOMEBODY}".encode() in done.stderr
    assert f"chown 0 {tmp_path / 'state'}".encode() in done.stderr
    assert b"state.dir in upstream.yaml" in done.stderr
    assert list((tmp_path / "state").iterdir()) == []


def test_a_state_folder_that_others_can_exchange_is_not_used(tmp_path: Path) -> None:
    """Who may write to the folder above can put a folder of their own in its place."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    path = configuration(tmp_path, hostile(tmp_path, "plain"), state={"dir": str(shared / "state")})
    done = served(path)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr, done.stderr.decode()[-2000:]
    assert f"others may write to '{shared}'; run: chmod go-w {shared}".encode() in done.stderr
    assert b"state.dir in upstream.yaml" in done.stderr
    assert list(shared.iterdir()) == []
    shared.chmod(0o755)
    assert served(path).returncode == 0, "the control: what the message says mends it"
    assert list(shared.iterdir()) == [shared / "state"]


async def test_a_link_among_the_workspaces_gives_a_program_nothing(tmp_path: Path) -> None:
    target = victim(tmp_path)
    path = configuration(tmp_path, hostile(tmp_path, "plain"))
    async with in_memory(path) as host:
        assert (await host.run("open('/workspace/own.txt', 'w').write('x')")).value == 1, "the control"
    workspaces = tmp_path / "state" / "workspaces"
    (workspaces / "default").rename(tmp_path / "aside")
    (workspaces / "default").symlink_to(target)
    with pytest.raises(NotPrivate, match="is a link"):
        async with in_memory(path):
            pass
    shutil.rmtree(workspaces)
    workspaces.symlink_to(tmp_path)
    workspace = Workspace(tmp_path / "state", Principal(PrincipalId("documents")))
    for use in (workspace.make, lambda: workspace.read(("diary.txt",)), lambda: workspace.list(())):
        with pytest.raises((NotPrivate, MetaToolError)):
            use()


def test_the_database_is_not_made_through_a_link(tmp_path: Path) -> None:
    Database(tmp_path / "control").close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-journal"):
        state = tmp_path / f"state of {name}"
        state.mkdir()
        (state / name).symlink_to(tmp_path / "victim")
        with pytest.raises(JournalUnavailable, match="is a link"):
            Database(state)
    assert not (tmp_path / "victim").exists()


def test_results_are_not_kept_or_removed_through_a_link(tmp_path: Path) -> None:
    """What a killed run left is removed at the next start, so a link would have had another folder emptied."""
    target = victim(tmp_path)
    (target / "album").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kept").symlink_to(target)
    linked = ArtifactStore(tmp_path / "state" / "kept", 1_000, 1_000)
    control = ArtifactStore(tmp_path / "state" / "other", 1_000, 1_000)
    item, owner = Item("x1", "text", 1), Owner(Principal(PrincipalId("local")), Session("s"))
    assert control.keep(owner, item, b"x") == item
    with pytest.raises(NotStored, match="is a link"):
        linked.keep(owner, item, b"x")
    assert linked.clean_leftovers() == 0
    assert {path.name for path in target.iterdir()} == {"diary.txt", "album"}
    control.close()


async def test_the_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    state = tmp_path / "state"
    path = configuration(tmp_path, hostile(tmp_path, "plain"))
    assert served(path).returncode == 0
    log = state / "logs" / "codemode.log"
    assert log.is_file(), "the control"
    log.unlink()
    log.symlink_to(tmp_path / "victim")
    done = served(path)
    assert (done.returncode, b"is a link" in done.stderr) == (0, True)
    assert not (tmp_path / "victim").exists()
