"""Makes the C library's allocator give large blocks back to the system.

glibc maps a large block by itself and unmaps it when it is freed, but each block that is freed so raises the size from
which it does that, up to 32 MiB (mallopt(3)). A few results of 16 MiB later they all come from heaps that fragment, and
the product is 240 MiB larger for good. A size that is set once stays.
"""

from __future__ import annotations

import sys

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MAPPED_BYTES = 2**20
_HEAPS = 2
"""More would each keep freed memory of their own; threads take turns for the interpreter anyway."""


def return_large_blocks() -> None:
    """Set it for this process. Does nothing where the C library is not glibc."""
    if sys.platform != "linux":
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        library.mallopt(_M_ARENA_MAX, _HEAPS)
