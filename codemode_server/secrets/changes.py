"""Tells running products that the person has changed a secret, by a file that they watch."""

from __future__ import annotations

from pathlib import Path

from codemode_server.private_files import private_folder, replace_private


def stamp_file() -> Path:
    """The file that is replaced with each change."""
    from platformdirs import user_data_path

    # Not in `state.dir`, which is known only once the configuration has been read.
    return user_data_path("codemode-server", appauthor=False) / "secrets.changed"


def note_change() -> None:
    """Have running products read their configuration again.

    Raises:
        OSError: the file can't be written.
        NotPrivate: somebody else could write it.
    """
    file = stamp_file()
    private_folder(file.parent, "$XDG_DATA_HOME", is_readable=True)
    replace_private(file, b"")
