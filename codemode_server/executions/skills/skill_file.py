"""The file of a skill that a program saved: a header of comments, which only the host writes, and the program's text.

    # skill check_pending_orders, saved by a program; see `codemode-server skills show check_pending_orders`
    # execution: "x7f3a9c21b04"
    # saved: "2026-11-25T01:30:34Z"
    # …
    # --- the skill itself begins below ---

Each value is JSON. What a program saves begins behind the last line of the first header, so it can forge none of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.flows import Source
from codemode_server.domain.ids import ExecutionId

_END = "# --- the skill itself begins below ---"
_MAX_HEADER_LINES = 20
_SOURCES = TypeAdapter(tuple[Source, ...])


@dataclass(frozen=True, slots=True)
class SavedSkill:
    """A skill that a program saved, with where it came from."""

    name: str
    text: str
    execution_id: ExecutionId
    session_id: str
    """The session that may import it while it is a proposal."""
    saved_at: float
    """Seconds since 1970, as `accepted_at`."""
    tools: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    """Sources that its session had read by then; empty once a person has accepted it."""
    accepted_at: float | None = None
    """When a person accepted it."""
    is_changed: bool = False
    """True if its text differs from the one that was saved and accepted."""
    is_proposal: bool = False
    """True if it waits for review."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def accepted(self, at: float) -> SavedSkill:
        return replace(self, accepted_at=at, sources=(), is_changed=False, is_proposal=False)


def encode(skill: SavedSkill) -> bytes:
    """The whole file."""
    values = {
        "execution": skill.execution_id,
        "session": skill.session_id,
        "saved": written_time(skill.saved_at),
        "tools": list(skill.tools),
        "accepted": None if skill.accepted_at is None else written_time(skill.accepted_at),
        "sources": [{**asdict(source), "labels": sorted(source.labels)} for source in skill.sources],
        "sha256": skill.digest,
    }
    title = f"# skill {skill.name}, saved by a program; see `codemode-server skills show {skill.name}`"
    lines = [title, *(f"# {key}: {json.dumps(value)}" for key, value in values.items()), _END, skill.text]
    return "\n".join(lines).encode()


def decode(name: str, content: bytes) -> SavedSkill | None:
    """A file as it is now; None if it has no whole header, so that a person has to look at it."""
    try:
        header, end, text = content.decode().partition(f"\n{_END}\n")
    except UnicodeDecodeError:
        return None
    lines = header.split("\n")
    if not end or len(lines) > _MAX_HEADER_LINES:
        return None
    try:
        values = dict(_values(lines[1:]))
        skill = SavedSkill(
            name,
            text,
            ExecutionId(str(values["execution"])[:40]),
            str(values["session"])[:80],
            _time(values["saved"]),
            tuple(map(str, values["tools"])),
            _SOURCES.validate_python(values["sources"]),
            None if values["accepted"] is None else _time(values["accepted"]),
        )
        return replace(skill, is_changed=skill.digest != values["sha256"])
    except (KeyError, ValueError, TypeError, ValidationError, RecursionError):
        return None


def written_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(lines: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for line in lines:
        key, _, value = line.removeprefix("# ").partition(": ")
        yield key, json.loads(value)


def _time(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()
