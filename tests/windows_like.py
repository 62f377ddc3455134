"""Runs the command with what Windows lacks taken away from our modules, on Linux: for them `sys.platform` is `win32`,
the modules `os`, `signal` and `select` have no name that only POSIX has, and folders can't be opened. Everything else,
and every library, sees the real system. It stands for a Windows that can't be had here, and knows nothing of its paths.

    python -m tests.windows_like serve --config upstream.yaml
"""

from __future__ import annotations

import builtins
import os
import select
import signal
import sys
from types import ModuleType
from typing import Any

ABSENT_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
ABSENT = {
    "os": {
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "O_SYNC", "ST_RDONLY", "WNOHANG", "chown"),
        *("fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getsid", "getuid"),
        *("killpg", "lchown", "mkfifo", "nice", "openpty", "register_at_fork", "sched_getaffinity", "set_blocking"),
        *("setsid", "statvfs", "sysconf", "uname", "waitid"),
    },
    "signal": {
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGUSR1", "SIGUSR2"),
        *("pthread_sigmask", "setitimer", "sigwait"),
    },
    "select": {"poll", "epoll"},
    "sys": set(),
}


class _WindowsLike(ModuleType):
    """A module without the names that Windows has not."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__)
        self.__dict__["_real"] = real

    def __getattr__(self, name: str) -> Any:
        if name in ABSENT[self.__name__]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on Windows")
        if (self.__name__, name) in _REPLACED:
            return _REPLACED[self.__name__, name]
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._real, name, value)


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):  # noqa: PTH112 - a descriptor is one as well
        raise PermissionError(13, "Permission denied", path)
    return os.open(path, flags, mode)


def _without_descriptors(call: Any) -> Any:
    def checked(path: Any = ".", *args: Any, dir_fd: int | None = None, **more: Any) -> Any:
        if isinstance(path, int) or dir_fd is not None:
            raise TypeError(f"{call.__name__} takes no descriptor on Windows")
        return call(path, *args, **more)

    return checked


_REPLACED: dict[tuple[str, str], Any] = {
    ("sys", "platform"): "win32",
    ("os", "open"): _open,
    **{("os", call.__name__): _without_descriptors(call) for call in (os.scandir, os.listdir, os.unlink, os.rmdir)},
    **{("os", call.__name__): _without_descriptors(call) for call in (os.lstat, os.stat, os.mkdir)},
}
_SEEN = {module.__name__: _WindowsLike(module) for module in (os, select, signal, sys)}
_import = builtins.__import__


def _imported(name: str, globals: Any = None, *rest: Any, **more: Any) -> Any:  # noqa: A002 - as `__import__` has it
    found = _import(name, globals, *rest, **more)
    if not (globals or {}).get("__name__", "").startswith("codemode_server"):
        return found
    if name in ABSENT_MODULES:
        raise ModuleNotFoundError(f"No module named {name!r} on Windows")
    return _SEEN.get(name, found)


def take_away() -> None:
    """From now on, for modules of ours that are imported later."""
    builtins.__import__ = _imported


if __name__ == "__main__":
    take_away()
    from codemode_server.__main__ import main

    main()
