"""Names that no file can have on Windows, whatever its extension: they are devices."""

from __future__ import annotations

DEVICE_NAMES = frozenset({"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
"""In lower case; Windows ignores case."""
