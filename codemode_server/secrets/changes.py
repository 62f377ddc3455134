"""Tells running products, by files that they watch, that a secret has changed or that commands may work now."""

from __future__ import annotations

from pathlib import Path

from codemode_server.private_files import data_folder, private_folder, replace_private


def stamp_file() -> Path:
    """The file that is replaced with each change."""
    return data_folder() / "secrets.changed"


def retry_file() -> Path:
    """The file that is replaced when the person has run the commands of a configuration by `status`."""
    return data_folder() / "secrets.retry"


def note_change() -> None:
    """Have running products read their configuration again.

    Raises:
        OSError: the file can't be written.
        NotPrivate: somebody else could write it.
    """
    _replace(stamp_file())


def note_retry() -> None:
    """Have running products in which a command has failed run it again; raises as `note_change`."""
    _replace(retry_file())


def _replace(file: Path) -> None:
    private_folder(file.parent, "$XDG_DATA_HOME", is_readable=True)
    replace_private(file, b"")
