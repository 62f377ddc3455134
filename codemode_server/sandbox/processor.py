"""Identifies the processor by its features; part of the key of what is valid for this processor only."""

from __future__ import annotations

import platform
from pathlib import Path


def features() -> str:
    """Model and flags from /proc/cpuinfo, or what `platform` knows."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return "\n".join(
        sorted({line for line in text.splitlines() if line.startswith(("flags", "Features", "model name"))})
    )
