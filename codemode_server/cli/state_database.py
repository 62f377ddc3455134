"""The database of the configuration's state folder, for commands that read or change one of its stores."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from codemode_server.config import LoadedSettings
from codemode_server.first_listing import state_folder
from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.database_thread import DatabaseThread


@contextmanager
def state_database(loaded: LoadedSettings) -> Generator[DatabaseThread | None]:
    """Its thread, which ends with the context; None if no product has made a database there yet."""
    folder = state_folder(loaded.settings)
    if not (folder / FILE_NAME).exists():
        yield None
        return
    thread = DatabaseThread(folder)
    try:
        yield thread
    finally:
        thread.close()
