"""The database of the configuration's state folder, for commands that read or change one of its stores."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import closing, contextmanager

from codemode_server.config import LoadedSettings
from codemode_server.first_listing import state_folder
from codemode_server.storage.database import FILE_NAME, unavailable
from codemode_server.storage.database_thread import DatabaseThread


def has_database(loaded: LoadedSettings) -> bool:
    """True if a product has made a database in the state folder.

    Raises:
        JournalUnavailable: none can be there, since a file is in the place of the state folder or above it, or its
            drive does not exist.
    """
    path = state_folder(loaded.settings) / FILE_NAME
    above = next((place for place in path.parents if os.path.lexists(place)), None)
    if above is None:
        raise unavailable(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not above.is_dir():
        raise unavailable(path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    return path.exists()


@contextmanager
def state_database(loaded: LoadedSettings) -> Generator[DatabaseThread | None]:
    """Its thread, which ends with the context; None if no product has made a database there yet."""
    if not has_database(loaded):
        yield None
        return
    with closing(DatabaseThread(state_folder(loaded.settings))) as thread:
        yield thread
