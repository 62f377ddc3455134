"""Folders and files of the product's own: nobody but their owner can have put anything into them.

Every path of the state and the caches is made and opened through this module: a folder that another user made, or could
write to, may hold a link to a file of the person's, or native code of that user's.

- A folder that settings name may be reached through links, if each belongs to this user or to root. Every folder above
  it must belong to one of the two, and nobody else may write to it, unless it is sticky as `/tmp` is, or a volume of
  a pod of Kubernetes.
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
_MAX_LINKS = 40
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
        real = _checked_folder(Path(os.path.abspath(path)))  # noqa: PTH100 - `resolve` would follow links unchecked
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
        return _allows_others(real.stat(), 0o4) and all(_allows_others(it.stat(), 0o1) for it in real.parents)
    except OSError:
        return False


def _checked_folder(path: Path) -> Path:
    """Walk down from the root, so that each step is checked before the next one is looked at."""
    here, steps, links = Path(path.anchor), list(path.parts[1:]), 0
    _check_parent(here, here.lstat())
    while steps:
        name = steps.pop(0)
        if name == "..":
            here = here.parent
            continue
        following = here / name
        try:
            status = following.lstat()
        except FileNotFoundError:
            _make(following)
            status = following.lstat()
        if stat.S_ISLNK(status.st_mode):
            if not _is_trusted(status.st_uid):
                raise NotPrivate(f"the link '{escaped(str(following))}' belongs to {_name(status.st_uid)}; remove it")
            if (links := links + 1) > _MAX_LINKS:
                raise NotPrivate(f"'{escaped(str(following))}' is one of too many links")
            target = following.readlink()
            if target.is_absolute():
                here = Path(target.anchor)
            steps = [*(target.parts[1:] if target.is_absolute() else target.parts), *steps]
        else:
            if steps:
                _check_parent(following, status)
            here = following
    return here


def _make(folder: Path) -> None:
    with suppress(FileExistsError):  # another product may make it as well; a link is not followed
        folder.mkdir(mode=0o700)


def _check_parent(folder: Path, status: os.stat_result, *, is_sticky_enough: bool = True) -> None:
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "Not a directory", str(folder))
    if not _is_trusted(status.st_uid):
        raise NotPrivate(
            f"'{escaped(str(folder))}' belongs to {_name(status.st_uid)}, who could exchange what is in it"
            f"{_remedy(folder)}"
        )
    if not _allows_others(status, 0o2) or (is_sticky_enough and status.st_mode & stat.S_ISVTX):
        return
    if status.st_uid == os.geteuid() or not _is_in_pod():
        raise NotPrivate(f"others may write to '{escaped(str(folder))}'; run: chmod go-w {_quoted(folder)}")


def _check_own_folder(folder: Path, forbidden: int = _OTHERS) -> None:
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"'{escaped(str(folder))}' is a link, which is not followed there; remove it")
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "Not a directory", str(folder))
    if sys.platform == "win32":
        return
    if status.st_uid == 0 != os.geteuid():  # what root keeps for this user is sound, but root alone can tighten it
        _check_parent(folder, status, is_sticky_enough=False)
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


def _is_trusted(uid: int) -> bool:
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    return uid in (0, os.geteuid()) or uid == _unmapped_root()


def _unmapped_root() -> int | None:
    """The id of root and all unknown users in a user namespace without root (rootless containers)."""
    try:
        if Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]:
            return None
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _is_in_pod() -> bool:
    """Volumes of Kubernetes belong to root and are open to all, or to a group that is in no file; a pod has no other
    users."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def _allows_others(status: os.stat_result, access: int) -> bool:
    """True if somebody but the owner has this access (4 read, 2 write, 1 search)."""
    if status.st_mode & access:
        return True
    return bool(status.st_mode & (access << 3)) and not _is_private_group(status.st_gid)


def _is_private_group(gid: int) -> bool:
    """True if the group is this user's alone; most Linux systems make one for each user."""
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    import grp
    import pwd

    try:
        group, me = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return gid == me.pw_gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _name(uid: int) -> str:
    if sys.platform == "win32":
        raise NotImplementedError  # nothing is checked there
    import pwd

    try:
        return f"{escaped(pwd.getpwuid(uid).pw_name)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
