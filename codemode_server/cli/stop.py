"""The command `stop`, and what `status`, `doctor` and `ui` say of the servers that hosts share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import show
from codemode_server.config import locate
from codemode_server.config.places import ConfigFile, user_file
from codemode_server.shim.attaching import asked, folder
from codemode_server.support.text import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="end those of other configurations too")


def run(parsed: argparse.Namespace) -> int:
    ours, running = str(locate(config_file(parsed)).path), [*_running()]
    chosen = [path for path, answer in running if parsed.all or answer["config"] == ours]
    stopped = [f"stopped: {_described(answer)}" for path in chosen if (answer := _answer(path, "stop"))]
    others = len(running) - len(chosen)
    if others:
        stopped.append(f"{counted(others, 'server')} of other configurations: `codemode-server stop --all` ends all")
    show("\n".join(stopped) or "no server is running")
    return 0


def running_lines(place: ConfigFile | None) -> Iterator[str]:
    """A line for each running server of this user; `place` is the configuration of this command. Blocks."""
    ours, running = str(place.path if place else user_file()), [*_running()]
    for _, answer in running:
        option = "" if answer["config"] == ours else " --all"
        yield f"running server: {_described(answer)}; `codemode-server stop{option}` ends it"
    if not running and sys.platform != "win32":
        yield "running server: none; a host starts it"


def _running() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder().glob("*.sock")) if sys.platform != "win32" else ():
        if answer := _answer(path, "status"):
            yield path, answer


def _answer(path: Path, question: str) -> dict[str, Any]:
    """What the server at a socket answers; empty if there is none."""
    with suppress(OSError, ValueError):  # it is ending
        return asked(path, question)
    return {}


def _described(answer: dict[str, Any]) -> str:
    since = datetime.fromtimestamp(answer["since"], UTC).astimezone()
    process = f"process {answer['pid']} since {since:%Y-%m-%d %H:%M}"
    parts = [process, f"version {answer['version']}", counted(answer["sessions"], "session")]
    if (resident := _resident_mb(answer["pid"])) is not None:
        parts.append(f"{resident} MB")
    more = ", ".join(f"{name} {count}" for name, count in sorted(answer["more_connections"].items()))
    if more:
        parts.append(f"more connections for folders and sessions: {more}")
    return f"{', '.join(parts)}, {answer['config']}"


def _resident_mb(pid: int) -> int | None:
    """Memory of a process; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/status").read_text(encoding="ascii").partition("VmRSS:")[2].split()[0]) // 1024
    return None
