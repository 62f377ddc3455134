"""The `audit` command: prints the rows of the audit, also to other software as they are recorded, and checks that
nobody changed it."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from codemode_server.calls.audit import AuditRow
from codemode_server.cli.arguments import count, days
from codemode_server.cli.terminal import configuration, line_width, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.ids import ExecutionId
from codemode_server.records.audit_rows import what_happened
from codemode_server.records.executions import Records, stored_records
from codemode_server.support.private_files import replace_private
from codemode_server.support.text import one_line

_ROWS = 40
_MAX_PIPED_CHARACTERS = 400
_STREAM_SECONDS, _STREAM_LATE_SECONDS = 1.0, 60.0
_SLICE_SECONDS = 600.0
"""Rows of so much time are read at once, also after a pause of days."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="show")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    showing = actions.add_parser("show", help="print the newest rows; the default")
    showing.add_argument("id", nargs="?", metavar="ID", help="only those of this execution")
    showing.add_argument("--limit", type=count, default=_ROWS, metavar="COUNT", help=f"default {_ROWS}")
    showing.add_argument("--since", type=days, default=None, metavar="DAYS", help="so many days back")
    verifying = actions.add_parser("verify", help="check that nobody changed it; exit code 1 if it was changed")
    verifying.add_argument(
        "--noted", type=_digest, default=None, metavar="DIGEST", help="a newest digest that you noted: must be in it"
    )
    showing.add_argument("--json", action="store_true", help="print JSON")
    streaming = actions.add_parser("stream", help="print the rows of all principals as they come, as lines of JSON")
    streaming.add_argument(
        "--position",
        type=Path,
        metavar="FILE",
        help="go on there after a restart; a new one begins with the last minute",
    )


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed)
    if parsed.action == "verify":
        text, is_sound = anyio.run(partial(verify, loaded, noted=parsed.noted))
        show(text)
        return 0 if is_sound else 1
    if parsed.action == "stream":
        if sys.platform != "win32":  # so that it ends between two rows, as after Ctrl+C
            signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        anyio.run(stream, loaded, parsed.position)
        return 0
    began = 0.0 if parsed.since is None else time.time() - parsed.since * 86_400
    execution_id = ExecutionId(parsed.id) if parsed.id else None
    show(anyio.run(partial(rows_page, loaded, execution_id, since=began, limit=parsed.limit, as_json=parsed.json)))
    return 0


async def rows_page(
    loaded: LoadedSettings, execution_id: ExecutionId | None, *, since: float, limit: int, as_json: bool
) -> str:
    lines = AuditLines(loaded)
    with stored_records(loaded) as records:
        rows = await records.audit.rows(records.principal, execution_id=execution_id, since=since, limit=limit)
    if as_json:
        return json.dumps([lines.json(it) for it in rows], indent=2)
    return "\n".join(lines.line(it, with_number=True) for it in rows) or "the audit has no such rows"


async def verify(loaded: LoadedSettings, *, noted: str | None = None) -> tuple[str, bool]:
    """What was found in the audit of all principals, and whether it is sound. `noted` must be in it."""
    with stored_records(loaded) as records:
        audit = records.audit
        broken = await audit.verified()
        is_noted_missing = noted is not None and not await audit.holds(noted)
        rows, newest_digest = await audit.extent()
    if broken:
        return (
            f"the audit is broken at {broken}: it was changed, moved or inserted, or rows before it were removed, by "
            "something other than codemode-server\nKeep a copy of the database and find out who could write it."
        ), False
    if is_noted_missing:
        return (
            "the noted digest is not in the audit: its row was changed or removed, or retention has deleted it "
            "(state.record_days, state.record_mb)"
        ), False
    if not rows:
        return "the audit has no rows", True
    return (
        f"the audit is sound: {rows:,} events, each with the digest of the one before it in its process, and every "
        f"execution as it was when it ended\nnewest digest: {newest_digest}\n"
        "Somebody who can write the file can compute all digests anew, or remove the newest rows. A note of the newest "
        "digest, kept elsewhere, shows that: verify --noted DIGEST."
    ), True


_Key: TypeAlias = tuple[str, str, int | None, float, int | None]
"""Which row of the audit: kind, execution, call, time, and number of an event."""


class AuditFollower:
    """Finds the rows of the audit as they are recorded, each once."""

    def __init__(
        self,
        rows: Callable[..., Awaitable[list[AuditRow]]],
        late_seconds: float,
        last: float,
        seen: frozenset[_Key] = frozenset(),
        *,
        slice_seconds: float = inf,
    ) -> None:
        """`rows`: `Audit.rows`, for the rows to follow. `last`: time of the newest row that was found before; `seen`:
        the rows of the `late_seconds` before it, since processes do not record rows in the order of their times.
        `slice_seconds`: period whose rows are read at once."""
        self._rows, self._late_seconds, self._slice_seconds = rows, late_seconds, slice_seconds
        self.last, self.seen = last, seen
        self.is_behind = False
        """True if there may be more rows already."""

    async def new(self) -> list[AuditRow]:
        self.last = min(self.last, time.time())  # a row of a replica whose clock is ahead must not hide those of others
        until = self.last + self._slice_seconds
        recent = await self._rows(since=self.last - self._late_seconds, until=until)
        found = [it for it in recent if _key(it) not in self.seen]
        self.seen = frozenset(map(_key, recent))
        self.is_behind = until < time.time() - self._late_seconds
        self.last = until if self.is_behind else max([self.last, *(it.event.at for it in recent)])
        return found


def _key(row: AuditRow) -> _Key:
    event = row.event
    return event.kind.value, event.execution_id, event.seq, event.at, row.number


async def stream(loaded: LoadedSettings, position: Path | None) -> None:
    """Print each row of the audit of all principals, as it is recorded, as a line of JSON, until cancelled. Raises
    `CodemodeError`: the database can't be read, or the line or `position` not written; with it, a later run goes on."""
    lines = AuditLines(loaded)
    with closing(Records(loaded)) as records:
        of_all, place = partial(records.audit.rows, None), _read_position(position)
        follower = AuditFollower(of_all, _STREAM_LATE_SECONDS, *place, slice_seconds=_SLICE_SECONDS)
        while True:
            new = await follower.new()
            try:
                for row in new:
                    print(json.dumps(lines.json(row)))
                sys.stdout.flush()
                if position is not None:
                    state = {"last": follower.last, "seen": sorted(follower.seen, key=str)}
                    replace_private(position, json.dumps(state).encode())
            except BrokenPipeError:
                raise
            except OSError as error:
                raise CodemodeError(f"the audit can't be streamed any further: {error.strerror}") from error
            await anyio.sleep(0 if follower.is_behind else _STREAM_SECONDS)


def _read_position(position: Path | None) -> tuple[float, frozenset[_Key]]:
    if position is None or not position.exists():
        return time.time(), frozenset()
    try:
        state = json.loads(position.read_bytes())
        return float(state["last"]), frozenset(map(tuple, state["seen"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CodemodeError(
            f"{position} can't be read; without it the stream begins with the last minute: {error!r}"
        ) from error


def _digest(text: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text
    raise argparse.ArgumentTypeError(f"{text[:80]!r} is no digest: 64 hexadecimal digits, as `audit verify` prints it")


class AuditLines:
    """Writes rows of one configuration: once more without its secrets, and as wide as the terminal."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._redactor = loaded.redactor
        self._width = line_width() or _MAX_PIPED_CHARACTERS

    def line(self, row: AuditRow, *, with_number: bool = False) -> str:
        """`05:12:04 x7f3a9c21b04 call 1 github.get_issue: allow, rule 1 …`; with its number, also with its day."""
        event = row.event
        at = datetime.fromtimestamp(event.at, UTC).astimezone()
        time = f"{at:%Y-%m-%d %H:%M:%S %Z}" if with_number else f"{at:%H:%M:%S}"
        number = "" if row.number is None else row.number
        parts = [f"{number:>6}" if with_number else "", time, event.execution_id, what_happened(event, self._redactor)]
        return one_line(" ".join(filter(None, parts)), max(40, self._width))

    def json(self, row: AuditRow) -> dict[str, Any]:
        """All columns; of the payload what the configuration let be recorded."""
        event, mask = row.event, self._redactor.text
        texts = {
            name: None if (text := getattr(event, name)) is None else mask(text)
            for name in ("server", "tool", "decision", "reason", "status", "error", "payload", "level")
        }
        return {
            "number": row.number,
            "kind": event.kind.value,
            "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds"),
            "principal": event.principal.principal_id,
            "session": event.session_id or None,
            "execution_id": event.execution_id or None,
            "call": event.seq,
            **texts,
            "milliseconds": event.milliseconds,
            "digest": row.digest,
        }
