"""Hints for what programs know from elsewhere and a sandbox lacks: network, processes, files of the host, names of an
earlier program."""

from __future__ import annotations

import builtins
import errno
import os
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator

from .advice import (
    NO_HOST_FILES,
    NO_NETWORK,
    NO_PROCESSES,
    NO_SKILL_FILES,
    NO_TOOL_FILES,
    TMP_IS_THE_SANDBOX_S,
    import_of,
    starts_fresh,
)
from .similar_names import similar_name

_HINTS_BY_FOLDER = {"skills": NO_SKILL_FILES, "servers": NO_TOOL_FILES}
_STARTERS = ("system", "popen", "fork", "forkpty", "execv", "execvp", "posix_spawn", "spawnl", "spawnv")
_DENIED = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, 76)  # of WASI: not capable
_MAX_NAMES = 5


def of_the_sandbox(error: BaseException) -> str:
    """What to do instead; empty if the sandbox is not the reason for the failure."""
    if isinstance(error, AttributeError):
        return _of_module(getattr(error, "name", None), getattr(error, "obj", None))
    if isinstance(error, RuntimeError) and "determine home directory" in str(error):
        return NO_HOST_FILES
    if not isinstance(error, (OSError, NotImplementedError)):
        return ""
    files = list(_files_of(error))
    if any(file.endswith(("subprocess.py", "unix_events.py")) for file in files) or "does not support processes" in str(
        error
    ):
        return NO_PROCESSES
    if any(file.endswith(("/socket.py", "urllib/request.py", "http/client.py")) for file in files) or "socket" in str(
        type(error)
    ):
        return NO_NETWORK
    if not isinstance(error, OSError) or error.errno not in _DENIED:
        return ""
    return of_path(error.filename, is_missing=error.errno == errno.ENOENT)


def of_name(error: NameError, defined: Iterable[str]) -> str:
    """What to do about a name that is not defined; `defined` are the names where it was used."""
    name = error.name
    if not name or isinstance(error, UnboundLocalError):
        return ""
    if wanted := import_of(name, is_module=True):
        return f"write: {wanted}"
    meant = similar_name(name, defined) or similar_name(name, (known for known in dir(builtins) if known.islower()))
    return f"did you mean {meant!r}?" if meant else starts_fresh(_last_result())


def _last_result() -> str:
    """The name of the last value stored in this session, or empty."""
    values = [name for name in sys.modules["codemode"].results if "/" not in name]
    return values[-1] if values else ""


def _of_module(name: str | None, owner: object) -> str:
    if not isinstance(owner, types.ModuleType) or name is None:
        return ""
    if owner.__name__ == "os" and name in _STARTERS:
        return NO_PROCESSES
    return NO_NETWORK if owner.__name__ == "http.client" and name == "HTTPSConnection" else ""


def of_path(written: object, *, is_missing: bool = True) -> str:
    """What to do about a path that could not be opened; `is_missing`: because there is nothing."""
    path = os.fsdecode(written) if isinstance(written, (str, bytes, pathlib.PurePath)) else ""
    if not path:
        return ""
    if path == "~" or path.startswith("~/") or ":\\" in path[:4]:
        return NO_HOST_FILES
    folder = os.path.abspath(path).split("/")[1]  # noqa: PTH100 - `resolve` would follow links
    if folder == "workspace":
        return _listed() if is_missing else ""
    if folder == "tmp":
        return _of_tmp(path) if is_missing else ""
    if folder in _HINTS_BY_FOLDER:
        return _HINTS_BY_FOLDER[folder]
    return NO_HOST_FILES if path.startswith("/") else f"write paths in full: /workspace/{path}; {_listed()}"


def _of_tmp(path: str) -> str:
    """What to do about a missing path in /tmp: the program mistyped the name of its own file, or means another /tmp."""
    wanted = pathlib.PurePath(path)
    try:
        meant = similar_name(wanted.name, os.listdir(wanted.parent))  # noqa: PTH208 - names are enough
    except OSError:
        meant = None
    return f"did you mean {str(wanted.parent / meant)!r}?" if meant else TMP_IS_THE_SANDBOX_S


def _listed() -> str:
    """What is in /workspace, as far as it fits."""
    try:
        names = sorted(path.name for path in pathlib.Path("/workspace").iterdir())
    except OSError:
        return "/workspace can't be read"
    if not names:
        return "/workspace is empty"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"/workspace has {', '.join(repr(name[:60]) for name in names[:_MAX_NAMES])}{more}"


def _files_of(error: BaseException | None) -> Iterator[str]:
    """The files through which the exception, and what it was raised from, went."""
    met: list[BaseException] = []
    while error is not None and not any(error is other for other in met):  # `raise error from error` makes a circle
        met.append(error)
        trace = error.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_code.co_filename
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
