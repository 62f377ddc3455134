"""Finds what a removed server leaves: secrets that nothing else in the configuration uses, and its sign-in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from codemode_server.config.expansion import read_dotenv
from codemode_server.config.loading import load_place
from codemode_server.config.places import Sources
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError
from codemode_server.secrets.store import SIGN_IN

_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\{(keyring:|env:|)([\w.-]+)")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def left_behind(removed: Mapping[str, Any], file: EditedFile) -> Iterator[str]:
    """A line for each, with what deletes it; `file` has the servers no more."""
    used = {name for _, name in _REFERENCE.findall(_COMMENT.sub("", file.text.text))}
    names = [it for it in _REFERENCE.findall(json.dumps(removed)) if it[1] not in used]
    in_keyring = {name for kind, name in names if kind == "keyring:"}
    variables = {name for kind, name in names if kind != "keyring:"}
    in_dotenv = sorted(variables & read_dotenv(file.dotenv, Sources(), [], ".env").keys())
    if in_dotenv:
        found = f"no server uses these variables now: {', '.join(in_dotenv)}"
        yield f"{found}; unless something else reads them, delete their lines in {file.dotenv}"
    for name in _stored(file):
        server = name.rpartition("/")[2]
        if name in in_keyring:
            yield f"no server uses the secret {name} now; to delete it: codemode-server secrets remove {name}"
        elif name.startswith(SIGN_IN) and server in removed:
            yield f"the sign-in to {server} is still stored; to revoke and delete it: codemode-server logout {server}"


def _stored(file: EditedFile) -> Iterable[str]:
    """The names in the store of secrets; none if it can't be read."""
    from codemode_server.first_listing import state_folder
    from codemode_server.secrets.keyring_store import open_store

    with suppress(CodemodeError):
        settings = load_place(file.place, require_trust=False, resolve=False).settings
        return open_store(state_folder(settings)).names()
    return ()
