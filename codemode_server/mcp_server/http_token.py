"""The token of `serve --http`: every user of the machine can connect to loopback, so an address alone proves nothing.

One private file for each user, in the data folder as the trust records are, so that no configuration chooses where it
is. It stays the same between starts, so that hosts' entries stay valid, until the person asks for a new one.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.support.private_files import data_folder, open_private, private_folder, replace_private

_BYTES = 32
_MAX_FILE_BYTES = 1_000
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43,}")


def token_file() -> Path:
    """Where the token is."""
    return data_folder() / "http-token"


def token(*, is_new: bool = False) -> str:
    """The token, made now if there is none or a new one is asked for. Raises `SettingsError`: it can't be read or
    written, or others could read it; `NotPrivate`: somebody else could have put it there."""
    file = token_file()
    try:
        private_folder(file.parent, "$XDG_DATA_HOME")
        if is_new or not file.exists():  # of two products that start at once, one makes the token for both
            replace_private(file, secrets.token_urlsafe(_BYTES).encode() + b"\n", keeps_existing=not is_new)
        return _read(file)
    except OSError as error:
        raise SettingsError(
            f"the token of --http can't be written to {file}: {error.strerror or error}; make the folder writable, "
            "or set $XDG_DATA_HOME to one that is"
        ) from error


def existing() -> frozenset[str]:
    """The token if there is one that a product would serve, so that it can be masked."""
    with suppress(OSError, CodemodeError):
        return frozenset({_read(token_file())})
    return frozenset()


def _read(file: Path) -> str:
    renew = "make a new one with: codemode-server serve --http HOST:PORT --new-token"
    if sys.platform != "win32" and stat.S_IMODE(file.lstat().st_mode) & 0o077 and not file.is_symlink():
        raise SettingsError(f"others could read the token in {file}; {renew}")
    with os.fdopen(open_private(file, os.O_RDONLY), "rb") as opened:
        text = opened.read(_MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise SettingsError(f"there is no token in {file}; {renew}")
    return text
