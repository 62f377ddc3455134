"""Reads files below a folder of a person's, where a link or a special file may lie: nothing but plain files is read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from codemode_server.domain.errors import MetaToolError

_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def read_text(folder: Path, parts: tuple[str, ...], max_bytes: int, *, shown: str) -> str:
    """The text of the file at `parts` below `folder`; none of the parts may be a link. `shown` is its name in messages.

    Raises:
        MetaToolError: there is no such plain file, it is too large, or it is no text.
    """
    path = folder.joinpath(*parts)
    try:
        if any(part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part for part in parts):
            raise OSError("it is no path in the folder")
        inner = folder
        for part in parts[:-1]:
            inner = inner / part
            if not stat.S_ISDIR(inner.lstat().st_mode):
                raise OSError("it goes through a link")
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is no plain file")
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise MetaToolError(f"{shown} is larger than {max_bytes // 1024} KiB")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise MetaToolError(f"{shown} can't be read: {reason}") from error
