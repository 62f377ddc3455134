"""The names of secrets, the commands that mend one, and how running products notice a change: by files that they watch.

A name is what the person calls a secret (`github`), or `oauth/<principal>/<server>` for the tokens of a sign-in.
References in `upstream.yaml` reach only the former.
"""

from __future__ import annotations

import re
from pathlib import Path

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.support.private_files import data_folder, private_folder, replace_private

FOLDER = "secrets"
MAX_VALUE_BYTES = 1_000_000
SIGN_IN = "oauth/"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def is_reference_name(name: str) -> bool:
    """True if the person may choose this name for a secret."""
    return _NAME.fullmatch(name) is not None


def remedy(name: str) -> str:
    """The command that stores the value anew."""
    if name.startswith(SIGN_IN):
        return f"codemode-server login {name.rpartition('/')[2]}"
    return f"codemode-server secrets set {name}"


def encoded(value: str) -> bytes:
    """The value as it is stored. Raises `SecretUnavailable`: it is too long, or no text."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise SecretUnavailable("the value is no valid text") from None
    if len(data) > MAX_VALUE_BYTES:
        raise SecretUnavailable(f"the value has more than {MAX_VALUE_BYTES:,} bytes")
    return data


def stamp_file() -> Path:
    """The file that is replaced with each change of a secret."""
    return data_folder() / "secrets.changed"


def notify() -> None:
    """Have running products read their configuration again. Raises `OSError`, `NotPrivate`: that can't be written."""
    file = stamp_file()
    private_folder(file.parent, "$XDG_DATA_HOME", is_readable=True)
    replace_private(file, b"")
