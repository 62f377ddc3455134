"""The modules that a program can import in a sandbox without further packages."""

from __future__ import annotations

import sys

_NEWER = frozenset({"annotationlib", "compression"})
"""Standard-library modules newer than the host's oldest supported Python."""
_REMOVED = """
aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib ossaudiodev
pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib
"""
"""Standard-library modules of older hosts that the sandbox's Python no longer has."""
TOOL_MODULES = frozenset({"servers", "skills", "workflows", "client", "codemode", "tool_discovery"})
"""Modules about tools, which exist only in the sandbox."""
_NOT_IN_WASM = """
antigravity bz2 ctypes curses ensurepip fcntl grp idlelib lzma mmap msvcrt nt pty pwd pydoc_data readline resource ssl
syslog termios this tkinter tty turtle turtledemo winreg winsound
"""
"""Modules that the standard library lacks when it is built for WebAssembly."""
_LIBRARY = (sys.stdlib_module_names | _NEWER) - {*_REMOVED.split()}
STANDARD = _LIBRARY | TOOL_MODULES | {"pip", "tzdata"}
IN_WASM = STANDARD - {"pip", *_NOT_IN_WASM.split()}
RESERVED = _LIBRARY | TOOL_MODULES
"""Modules that no package may have."""
NEVER_IN_WORKSPACE = frozenset(it for it in RESERVED if not it.startswith("_")) | {"__future__"}
"""Modules that are imported from the sandbox or not at all, whatever files /workspace has."""
