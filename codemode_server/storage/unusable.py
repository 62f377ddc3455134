"""Explains why the database cannot be used, from SQLite's error and the state of the file, with the remedy."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from codemode_server.domain.errors import JournalDamaged, JournalFull, JournalUnavailable

ELSEWHERE = "set state.dir in upstream.yaml to a folder that can be written"
_FULL_BELOW_BYTES = 64 * 1024
"""SQLite may report a full disk as an I/O error; with less free space than this, the disk is taken for full."""
_FILES = 3
"""Files of a database in use: the database, the write-ahead log and its index."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def unavailable(path: Path, error: Exception) -> JournalUnavailable:
    """The error to raise for an error of SQLite or of the file system."""
    if (code := _primary_code(error)) in _DAMAGE:
        return damaged(path, str(error))
    if _is_full(path, error, code):
        return full(path)
    if code in _LOCKED:
        cause = f"another program has had it locked for seconds ({error})"
        remedy = "End that program, for instance a database browser or a backup; `lsof` names it"
    elif code == sqlite3.SQLITE_ERROR:
        cause = f"its tables are not as codemode-server makes them ({error})"
        remedy = "If another program changed it, move it away, and a new one is made; else install the newest version"
    else:
        cause, remedy = _file_problem(path, error)
    return JournalUnavailable(f"the record {path} can't be used: {cause}. {remedy}.")


def is_locked(error: Exception) -> bool:
    """Whether `error` was made from that of a database which another product had locked."""
    return isinstance(error, JournalUnavailable) and _primary_code(error.__cause__) in _LOCKED


def damaged(path: Path, why: str) -> JournalDamaged:
    """The error to raise for a damaged database."""
    return JournalDamaged(
        f"the record {path} can't be used: it is damaged ({why}). Restore it from a backup, or move it away, and a new "
        "one is made without the past calls and learned types; state.on_damage: set_aside in upstream.yaml does that."
    )


def full(path: Path) -> JournalFull:
    """The error to raise when the disk is full."""
    return JournalFull(
        f"the record {path} can't be used: database or disk is full. Free some disk space; "
        "`codemode-server workspace clean` removes the programs' files."
    )


def newer(path: Path, version: int) -> JournalUnavailable:
    """The error to raise for a schema that this version does not know."""
    return JournalUnavailable(
        f"the record {path} was written by a newer codemode-server (schema {version}). "
        "Install that one, or set state.dir in upstream.yaml to another folder."
    )


def _primary_code(error: BaseException | None) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _is_full(path: Path, error: Exception, code: int | None) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and path.parent.is_dir():
        return shutil.disk_usage(path.parent).free < _FULL_BELOW_BYTES
    return code == sqlite3.SQLITE_FULL


def _file_problem(path: Path, error: Exception) -> tuple[str, str]:
    """Cause and remedy, from what is at the path and who may write there."""
    folder = path.parent
    above = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), folder)
    try:
        if not above.is_dir():
            return f"{above} is no folder", f"S{ELSEWHERE[1:]}, or move that file away"
        if path.is_dir():
            return "it is a folder", f"S{ELSEWHERE[1:]}, or move that folder away"
        if _is_read_only(above):
            return f"the disk of {above} is read-only", f"Mount it for writing, or {ELSEWHERE}"
        if not os.access(above, os.W_OK | os.X_OK):
            return f"you may not write to {above} ({_owner(above)})", f"Make that folder yours (chown), or {ELSEWHERE}"
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return f"you may not write to it ({_owner(path)})", f"Make it yours (chown, chmod 600), or {ELSEWHERE}"
        _open_as_many_files_as_sqlite()
    except OSError as problem:
        if problem.errno in (errno.EMFILE, errno.ENFILE):
            return "too many files are open", "Raise the limit (`ulimit -n`), or end other programs"
        if problem.errno != errno.ENOENT:
            return problem.strerror or str(problem), f"Mend that, or {ELSEWHERE}"
    return str(error), f"If the disk is sound and nothing else is wrong with the file, {ELSEWHERE}"


def _open_as_many_files_as_sqlite() -> None:
    """Raise OSError if the process cannot open enough files.

    It does not open the database: closing that would release the locks of this process's other connections, and another
    product would remove the write-ahead log that they use."""
    descriptors: list[int] = []
    try:
        descriptors.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_FILES))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _is_read_only(folder: Path) -> bool:
    return sys.platform != "win32" and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _owner(path: Path) -> str:
    status = path.stat()
    return f"mode {status.st_mode & 0o777:o}, user {status.st_uid}"
