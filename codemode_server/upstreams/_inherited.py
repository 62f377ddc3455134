"""Selects the environment variables that an upstream's process inherits: few, so that it gets no secret of another."""

from __future__ import annotations

from collections.abc import Mapping

_POSIX = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE"),
    *("SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    # Beside those of mcp: without them Docker, npx and shells do not start (docker/mcp-gateway issue 424).
    *("COMSPEC", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "TMP", "WINDIR"),
)


def inherited_environment(environ: Mapping[str, str], platform: str) -> dict[str, str]:
    """Variables of `environ` that a process gets on this platform (as `sys.platform`). Windows spells names in any
    case."""
    names = _WINDOWS if platform == "win32" else _POSIX
    given = {name.upper() if platform == "win32" else name: value for name, value in environ.items()}
    found = {name: given[name] for name in names if name in given}
    return {name: value for name, value in found.items() if not value.startswith("()")}  # bash's functions
