"""Which names a principal or a group can have. Every name passes this module, wherever it comes from.

A name becomes the name of a folder, on any file system, and part of the names of secrets. Names are ASCII in lower
case: so Unicode has one form for each, and no two names look alike or are one name for a file system.
"""

from __future__ import annotations

import re

from codemode_server.domain.ids import PrincipalId

DEVICE_NAMES = frozenset({"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
"""In lower case; Windows ignores case."""


PRINCIPAL_VARIABLE = "CODEMODE_PRINCIPAL"
"""Names the principal of this process. One in `.env` does not count, as that file may come with a folder."""
MAX_CHARACTERS = 64
RULE = (
    f"a name has at most {MAX_CHARACTERS} characters: a-z, 0-9, `.`, `_`, `-`, `@` and `+`, and begins with a letter "
    "or a digit"
)
_NAME = re.compile(rf"[a-z0-9][a-z0-9._@+-]{{0,{MAX_CHARACTERS - 1}}}", re.ASCII)


def principal_id(name: str) -> PrincipalId:
    """The name, checked.

    Raises:
        ValueError: it can't be the name of a principal; the message says why, and does not repeat it.
    """
    return PrincipalId(checked_name(name))


def checked_name(name: str) -> str:
    """The name of a principal or a group, checked; raises as `principal_id` does."""
    if _NAME.fullmatch(name) is None:
        in_lower_case = name.lower()
        if in_lower_case != name and _NAME.fullmatch(in_lower_case):
            raise ValueError(f"is not in lower case; write {in_lower_case!r}")
        raise ValueError(f"is no valid name: {RULE}")
    if ".." in name or name.endswith("."):
        raise ValueError("is no valid name: it ends with `.` or contains `..`")
    if name.partition(".")[0] in DEVICE_NAMES:
        raise ValueError("is no valid name: Windows has a device of that name")
    return name
