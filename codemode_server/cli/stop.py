"""The command `stop`, and what `status` says of the servers that hosts share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codemode_server.cli.terminal import show
from codemode_server.shim.attaching import asked, folder
from codemode_server.support.text import counted


def run(_parsed: argparse.Namespace) -> int:
    stopped = [_described(answer) for answer in _answers("stop")]
    show("\n".join(f"stopped: {it}" for it in stopped) if stopped else "no server is running")
    return 0


def running_lines() -> Iterator[str]:
    """A line for each running server of this user. Blocks."""
    return (f"running server: {_described(answer)}; `codemode-server stop` ends it" for answer in _answers("status"))


def _answers(question: str) -> Iterator[dict[str, Any]]:
    if sys.platform == "win32":
        return
    for path in sorted(folder().glob("*.sock")):
        with suppress(OSError, ValueError):  # it is ending
            if answer := asked(path, question):
                yield answer


def _described(answer: dict[str, Any]) -> str:
    since = datetime.fromtimestamp(answer["since"], UTC).astimezone()
    parts = [f"process {answer['pid']} since {since:%Y-%m-%d %H:%M}", counted(answer["sessions"], "session")]
    if (resident := _resident_mb(answer["pid"])) is not None:
        parts.append(f"{resident} MB")
    return f"{', '.join(parts)}, {answer['config']}"


def _resident_mb(pid: int) -> int | None:
    """Memory of a process; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/status").read_text(encoding="ascii").partition("VmRSS:")[2].split()[0]) // 1024
    return None
