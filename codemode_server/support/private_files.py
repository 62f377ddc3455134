"""Folders and files of the product's own: nobody but their owner can have put anything into them.

Every path of the state and the caches is made and opened through this module: a folder that another user made, or could
write to, may hold a link to a file of the person's, or native code of that user's.

- A folder that settings name may be reached through links. It belongs to this user, whose mode of it is tightened, or
  to root, if nobody else may write to it or it is a volume of a pod of Kubernetes.
- What stands in such a folder is never reached through a link, and belongs to this user; its mode is tightened.

On Windows nothing is checked: the folders are in the user's profile.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
import sys
from contextlib import suppress
from pathlib import Path

from codemode_server.domain.errors import CodemodeError
from codemode_server.support.text import escaped

UNFINISHED = "unfinished."
"""Name prefix of files that were not written completely."""
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


class NotPrivate(CodemodeError):
    """Raised when a path belongs to somebody else, or somebody else may write to it; the message names the remedy."""


def data_folder() -> Path:
    """The folder of the user's own data, which may not exist. No setting moves it, so no file that somebody else wrote
    can choose where it is."""
    from platformdirs import user_data_path

    return user_data_path("codemode-server", appauthor=False)


def private_folder(path: Path, setting: str = "", *, is_readable: bool = False) -> Path:
    """Make the folder, or check and tighten the one that is there; gives it without links.

    `setting` is what would name another folder, for the message. If others could read it and `is_readable`, they still
    can: a person may keep other files there. Raises `NotPrivate`, `OSError`."""
    if sys.platform == "win32":
        path.mkdir(parents=True, exist_ok=True)
        return path
    try:
        real = Path(os.path.realpath(path))
        _make_parents(real)
        _make(real)
        _check_own_folder(real, _OTHERS_WRITE if is_readable else _OTHERS)
    except NotPrivate as error:
        other = f", or set {setting} to another folder" if setting else ""
        raise NotPrivate(f"'{escaped(str(path))}' can't be used: {error}{other}") from None
    return real


def private_subfolder(parent: Path, *names: str) -> Path:
    """Make folders within a private one, or check and tighten those that are there. No link is followed. Raises
    `NotPrivate`, `OSError`."""
    for name in names:
        parent = parent / name
        _make(parent)
        _check_own_folder(parent)
    return parent


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file in a private folder; what is made is 0600. No link is followed. Raises `NotPrivate`,
    `OSError`."""
    if sys.platform == "win32":
        return os.open(path, flags, 0o600)
    check_file(path)
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _check_file_status(path, os.fstat(descriptor))
    except NotPrivate:
        os.close(descriptor)
        raise
    return descriptor


def replace_private(path: Path, content: bytes, *, keeps_existing: bool = False) -> None:
    """Write a file of a private folder as a whole: after a crash, a full disk or a second writer it has the old content
    or the new one. A link in its place is replaced, not followed. With `keeps_existing`, the first writer's content
    stays. Raises `OSError`."""
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    try:
        with os.fdopen(open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not keeps_existing:
            unfinished.replace(path)
        else:
            try:
                os.link(unfinished, path)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links, such as FAT
                if not os.path.lexists(path):
                    unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in the folder survive a power failure."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file(path: Path) -> None:
    """Check and tighten a file in a private folder that a library opens, such as SQLite. Raises `NotPrivate`."""
    if sys.platform == "win32":
        return
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    _check_file_status(path, status)
    if status.st_mode & _OTHERS:
        path.chmod(0o600)


def is_own(status: os.stat_result) -> bool:
    """True if a file or folder belongs to this user and nobody else may write to it."""
    if sys.platform == "win32":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def others_may_read(path: Path) -> bool:
    """True if the file's mode lets another user of the machine read it."""
    if sys.platform == "win32":
        return False
    try:
        real = path.resolve()
        return bool(real.stat().st_mode & 0o4) and all(it.stat().st_mode & 0o1 for it in real.parents)
    except OSError:
        return False


def _make_parents(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(20, "Not a directory", str(folder.parent)) from None


def _make(folder: Path) -> None:
    with suppress(FileExistsError):  # another product may make it as well; a link is not followed
        folder.mkdir(mode=0o700)


def _check_own_folder(folder: Path, forbidden: int = _OTHERS) -> None:
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"'{escaped(str(folder))}' is a link, which is not followed there; remove it")
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "Not a directory", str(folder))
    if sys.platform == "win32":
        return
    if status.st_uid == 0 != os.geteuid():  # what root keeps for this user is sound, but root alone can tighten it
        if status.st_mode & 0o002 and not _is_in_pod():
            raise NotPrivate(f"others may write to '{escaped(str(folder))}'; run: chmod go-w {_quoted(folder)}")
        return
    if status.st_uid != os.geteuid():
        raise NotPrivate(
            f"'{escaped(str(folder))}' belongs to {_name(status.st_uid)}, who could have put links into it"
            f"{_remedy(folder)}"
        )
    if status.st_mode & forbidden:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~forbidden)


def _check_file_status(path: Path, status: os.stat_result) -> None:
    shown = escaped(str(path))
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"'{shown}' is a link, which is not followed there; remove it")
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotPrivate(f"'{shown}' is no regular file; remove it")
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        raise NotPrivate(f"'{shown}' belongs to {_name(status.st_uid)}{_remedy(path)}")


def _remedy(path: Path) -> str:
    """For a wrong owner: in a container, for instance, a mounted folder often has another than the process."""
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"; run codemode-server as that user, or run: {sudo}chown {os.geteuid()} {_quoted(path)}"


def _quoted(path: Path) -> str:
    return shlex.quote(escaped(str(path)))


def _is_in_pod() -> bool:
    """Volumes of Kubernetes belong to root and are open to all, or to a group that is in no file; a pod has no other
    users."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def _name(uid: int) -> str:
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    import pwd

    try:
        return f"{escaped(pwd.getpwuid(uid).pw_name)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
