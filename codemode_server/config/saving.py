"""Saves an edited configuration file: checked by the loader, in one step, and never over somebody else's edit."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from codemode_server.config import trust
from codemode_server.config.editing import ConfigText
from codemode_server.config.loading import LoadedSettings, load_place
from codemode_server.config.places import ConfigFile
from codemode_server.config.problems import printable
from codemode_server.domain.errors import CodemodeError, SettingsError

FIRST_FILE = """\
# The servers of codemode-server. `codemode-server config check` shows what it understood of this file.
# ${VAR} and ${VAR:-default} are filled in from the environment and from a `.env` beside this file.
# Saving the file is enough: it is read again while the server runs.
#
# servers:
#   time:                                   # a program; its Python package: from servers.time import …
#     command: uvx
#     args: [mcp-server-time]
#   linear:                                 # an address
#     url: https://mcp.linear.app/mcp
#     headers:
#       Authorization: Bearer ${LINEAR_TOKEN}
#
# What programs may call: the first rule that matches decides; without one a call is allowed.
# permissions:
#   rules:
#     - deny: "linear/delete_*"
#
# All other settings have defaults; `codemode-server config schema` prints them with their documentation.

servers:
"""


class EditedFile:
    """One configuration file while it is edited; one that does not exist begins as `FIRST_FILE`."""

    def __init__(self, place: ConfigFile) -> None:
        self.place = place
        self.path = Path(os.path.realpath(place.path))
        """Without links, so that a link to the file stays one."""
        self._before = _content(self.path)
        self._was_trusted = self._is_trusted()
        is_json = self.path.suffix in (".json", ".jsonc") or (self._before or b"").lstrip()[:1] == b"{"
        try:
            text = FIRST_FILE if self._before is None else self._before.decode()
        except UnicodeDecodeError:
            raise CodemodeError(f"{printable(str(place.path))} is not UTF-8; save it as UTF-8") from None
        self.text = ConfigText("{}" if is_json and self._before is None else text, is_json=is_json)

    @property
    def is_new(self) -> bool:
        return self._before is None

    def save(self, *, keeps_copy: bool = False) -> Path | None:
        """Write the edited text; gives the path of the copy of the old one, if one was kept.

        Raises:
            CodemodeError: the result can't be used, or the file was changed meanwhile.
        """
        try:
            return self._save(keeps_copy=keeps_copy)
        except OSError as error:
            raise CodemodeError(f"can't write {printable(str(self.path))}: {error.strerror}") from error

    def _save(self, *, keeps_copy: bool) -> Path | None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        copy = None
        if keeps_copy and self._before is not None:
            copy = self.path.with_name(f"{self.path.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
            _replace(copy, self._before, self._mode())
        _replace(self.path, self.text.text.encode(), self._mode(), self._check)
        if self._was_trusted:
            loaded = load_place(self.place, require_trust=False)
            trust.record(self.place.path, loaded.digests)
        return copy

    def _check(self, written: Path) -> None:
        """Check the new text under another name, and that the file is still the one that was read."""
        place = ConfigFile(written)
        try:
            load_place(place)
        except SettingsError as error:
            message = str(error).replace(str(written), str(self.path)).replace(written.name, self.path.name)
            raise CodemodeError(f"nothing was changed, since the result could not be used:\n{message}") from error
        if _content(self.path) != self._before:
            raise CodemodeError(f"{printable(str(self.path))} was changed by another program meanwhile; try again")

    def _is_trusted(self) -> bool:
        """Whether the old content of a file in the current folder is trusted; the new one is then trusted too."""
        if not self.place.is_in_current_folder or self._before is None:
            return self.place.is_in_current_folder
        loaded: LoadedSettings | None = None
        with suppress(SettingsError):
            loaded = load_place(self.place, require_trust=False)
        return loaded is not None and trust.is_trusted(self.place.path, loaded.digests)

    def _mode(self) -> int:
        return 0o600 if self._before is None else self.path.stat().st_mode & 0o777


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CodemodeError(f"can't read {printable(str(path))}: {error.strerror}") from error


def _replace(path: Path, content: bytes, mode: int, check: Callable[[Path], None] | None = None) -> None:
    """Write beside the file, and put it in place in one step."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written.chmod(mode)
        if check is not None:
            check(written)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
