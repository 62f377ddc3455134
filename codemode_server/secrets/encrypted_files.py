"""Secrets in a private folder, each in an encrypted file of its own.

The key is in the same folder. Encryption keeps values out of searches, backups of single files and previews, and shows
any change; it does not protect them from who can read all files of this user.

Names of files hold the names of secrets, encoded so that they differ on every file system. Files of different secrets
are independent, so that two processes at once can't lose a value.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.processes.file_lock import held
from codemode_server.secrets.store import FOLDER, MAX_VALUE_BYTES, encoded, remedy
from codemode_server.support.private_cipher import PrivateCipher, ValueUnreadable
from codemode_server.support.private_files import (
    UNFINISHED,
    NotPrivate,
    open_private,
    private_folder,
    private_subfolder,
    replace_private,
    sync_folder,
)

KEY = "secrets.key"
_VALUE, _LOCK, MARK = "value.", "lock.", "keyring."
_LOCK_S = 30.0
"""Refreshing a token takes two requests of up to ten seconds."""
_ABANDONED_S = 3600.0
_MAX_FILE_NAME_BYTES = 240
_OVERHEAD_BYTES = 1_000


class EncryptedFileStore:
    """The secrets in one state folder. Blocks, in any thread. Every method raises `SecretUnavailable`."""

    def __init__(self, state_folder: Path, *, lock_s: float = _LOCK_S) -> None:
        self._state_folder = state_folder
        self.folder = state_folder / FOLDER
        self._lock_s = lock_s

    @property
    def description(self) -> str:
        """Where new values are stored, for the person."""
        return f"encrypted files in {self.folder}"

    def get(self, name: str) -> str | None:
        path = self._path(_VALUE, name)
        with _explained(path):
            if not os.path.lexists(self.folder):
                return None
            self._check_folder()
            try:
                with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
                    content = file.read(MAX_VALUE_BYTES + _OVERHEAD_BYTES)
            except FileNotFoundError:
                return None
        try:
            return self._cipher().decrypt(content, name).decode()
        except (ValueUnreadable, UnicodeDecodeError) as problem:
            reason = str(problem) if isinstance(problem, ValueUnreadable) else "it is no text"
            raise SecretUnavailable(
                f"the secret {name!r} in {path} can't be decrypted: {reason}. To store it again, run: {remedy(name)}"
            ) from None

    def set(self, name: str, value: str) -> None:
        """Store the value. Once it returns, the value survives a crash; before, the old one does."""
        data, path = encoded(value), self._path(_VALUE, name)
        with _explained(path):
            self._check_folder()
            self._remove_unfinished()
            replace_private(path, self._cipher().encrypt(data, name))

    def remove(self, name: str) -> bool:
        return self._remove(self._path(_VALUE, name))

    def names(self) -> list[str]:
        return self._names(_VALUE)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock between processes and threads, to read and replace a value; not reentrant, nor taken by the
        others."""
        path = self._path(_LOCK, name)
        with ExitStack() as stack:
            with _explained(path):
                self._check_folder()
                try:
                    stack.enter_context(held(path, timeout_s=self._lock_s))
                except TimeoutError:
                    raise SecretUnavailable(
                        f"another codemode-server has been changing the secret {name!r} for {self._lock_s:.0f} s "
                        f"({path} is locked); try again, or end that process"
                    ) from None
            yield

    def where(self, name: str) -> str:
        return str(self._path(_VALUE, name))

    def _mark(self, name: str) -> None:
        """Note that a keyring, which can't list its names, has this one."""
        path = self._path(MARK, name)
        with _explained(path):
            self._check_folder()
            replace_private(path, b"")

    def _names(self, kind: str) -> list[str]:
        with _explained(self.folder):
            if not os.path.lexists(self.folder):
                return []
            self._check_folder()
            return sorted(unquote(path.name[len(kind) :]) for path in self.folder.glob(f"{kind}*"))

    def _remove(self, path: Path) -> bool:
        with _explained(path):
            if not os.path.lexists(self.folder):
                return False
            self._check_folder()
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            sync_folder(self.folder)
        return True

    def _check_folder(self) -> None:
        """Make the folder, or check it; it may not be a link, while the state folder may be reached through one."""
        private_subfolder(private_folder(self._state_folder, "state.dir", is_readable=True), FOLDER)

    def _cipher(self) -> PrivateCipher:
        """Reads the key anew: the person may have removed the folder since."""
        return PrivateCipher(
            self.folder / KEY, "the key of the secrets", "secrets that were stored before", SecretUnavailable
        )

    def _path(self, kind: str, name: str) -> Path:
        file_name = kind + _encoded(name)
        if not name or len(file_name) > _MAX_FILE_NAME_BYTES:
            raise SecretUnavailable(f"{name[:100]!r} can't be the name of a secret: it is empty or too long")
        return self.folder / file_name

    def _remove_unfinished(self) -> None:
        for path in self.folder.glob(f"{UNFINISHED}*"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _ABANDONED_S:
                    path.unlink()


def _encoded(name: str) -> str:
    """Upper case is encoded too: macOS and Windows do not distinguish it; nor does Windows keep a dot at the end."""
    plain = re.compile(rb"[a-z0-9_-]")
    data = name.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if plain.match(bytes([byte])) else f"%{byte:02x}" for byte in data)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except NotPrivate as error:
        raise SecretUnavailable(f"secrets are not read or stored there: {error}") from None
    except OSError as error:
        raise SecretUnavailable(
            f"{path} can't be used: {error.strerror or error}; mend that, or set state.dir to another folder"
        ) from None
