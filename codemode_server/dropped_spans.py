"""How many spans the exporters of a product missed, in a file of the state folder, for `codemode-server status`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ValidationError

from codemode_server.private_files import NotPrivate, open_private, replace_private

logger = logging.getLogger(__name__)

_FILE = "dropped-spans.json"
_SHOWN_SECONDS = 24 * 3600.0
_MAX_BYTES = 100_000


class DroppedSpans(BaseModel):
    """What one product reported last."""

    exporter: str
    dropped_at: float
    """Seconds since 1970."""
    reasons: dict[str, int]


def writer(folder: Path) -> Callable[[str, Mapping[str, int]], None]:
    """What notes the spans that an exporter has missed so far, by reason; called in its thread."""

    def write(exporter: str, reasons: Mapping[str, int]) -> None:
        noted = DroppedSpans(exporter=exporter, dropped_at=time.time(), reasons=dict(reasons))
        try:
            replace_private(folder / _FILE, noted.model_dump_json().encode())
        except (OSError, NotPrivate) as error:  # the log has said how many they are
            logger.info("%s can't be written: %s", folder / _FILE, error)

    return write


def status_line(folder: Path, now: float) -> str:
    """A line about what was dropped within a day; empty if there was nothing."""
    try:
        with os.fdopen(open_private(folder / _FILE, os.O_RDONLY), "rb") as file:
            noted = DroppedSpans.model_validate_json(file.read(_MAX_BYTES))
    except (OSError, NotPrivate, ValidationError):
        return ""
    if not 0 <= now - noted.dropped_at < _SHOWN_SECONDS:
        return ""
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in noted.reasons.items())
    when = datetime.fromtimestamp(noted.dropped_at, UTC).astimezone().isoformat(sep=" ", timespec="minutes")
    return (
        f"traces: {noted.exporter} did not take {sum(noted.reasons.values()):,} spans, the last at {when} ({reasons})"
    )
