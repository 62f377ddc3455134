"""The modules that a program can import in a sandbox without further packages."""

from __future__ import annotations

import sys

_NEWER = frozenset({"annotationlib", "compression"})
"""Standard-library modules newer than the host's oldest supported Python."""
TOOL_MODULES = frozenset({"servers", "skills", "workflows", "client", "codemode", "tool_discovery"})
"""Modules about tools, which exist only in the sandbox."""
_NOT_IN_WASM = """
antigravity bz2 ctypes curses ensurepip fcntl grp idlelib lzma mmap msvcrt nt pty pwd pydoc_data readline resource ssl
syslog termios this tkinter tty turtle turtledemo winreg winsound
"""
"""Modules that the standard library lacks when it is built for WebAssembly."""
STANDARD = sys.stdlib_module_names | _NEWER | TOOL_MODULES | {"pip", "tzdata"}
IN_WASM = STANDARD - {"pip", *_NOT_IN_WASM.split()}
