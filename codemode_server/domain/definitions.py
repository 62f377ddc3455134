"""Definitions of tools in a form that can be compared, and which of them were accepted, for each principal
and server: the contract of their store. No I/O.

The order of keys and of `required` does not count, nor does white space in titles and descriptions. Every other
character does, also one that looks like another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from codemode_server.domain.tools import ToolDefinition

_MARK_CHARACTERS = 16
SERVER = "(its own description)"
"""In place of a tool's name, for what a server says of itself."""
MAX_WAITING = 5
"""Definitions of one tool that wait for a review; the oldest are forgotten."""
MAX_ACCEPTED = 10
"""Accepted definitions of one tool, to which it may return; the oldest are forgotten."""
MAX_DEFINITIONS = 20_000
"""Definitions of one server; a tool that would be beyond it is not stored, so it stays one that nobody accepted."""
MAX_TEXT_BYTES = 16 * 2**20
"""Size of all texts of one server, compressed; definitions beyond it are stored without their text."""


@dataclass(frozen=True, slots=True)
class KnownDefinition:
    """One definition that a tool of a server has, or had. Times are seconds since 1970."""

    server: str
    tool: str
    """Raw names."""
    digest: str
    former: str
    """Name of the tool that it changes: this one, or one that was renamed; empty if it is new."""
    seen_at: float
    accepted_at: float | None
    """None: it waits for the person's review."""
    description_mark: str = ""
    """Short digest of the description; empty if there is none."""
    schema_mark: str = ""
    """Short digest of the input schema; empty if it has no properties."""

    @property
    def is_accepted(self) -> bool:
        return self.accepted_at is not None


KnownTools = Mapping[str, Mapping[str, KnownDefinition]]
"""The definitions of one server: by raw name of the tool, and by digest."""


def canonical_text(tool: ToolDefinition) -> str:
    """The definition as JSON that is equal for equal definitions."""
    said: dict[str, Any] = {
        "name": tool.name,
        "title": tool.title or "",
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "effect": tool.effect.value,
        # Only where it is set: what is added here later must not change the digests of tools that don't have it.
        **({"closedWorld": True} if tool.is_closed_world else {}),
    }
    with suppress(RecursionError):  # what is nested so deeply is compared as it is written
        said = _canonical(said, "")
    return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def server_definition(description: str) -> ToolDefinition:
    """A server's description of itself, as a definition that is accepted and reviewed like those of its tools."""
    said = ToolDefinition(SERVER, description)
    return replace(said, digest=digest_of(canonical_text(said)))


def definition_digest(tool: ToolDefinition) -> str:
    return tool.digest or digest_of(canonical_text(tool))


def new_definitions(
    server: str, known: KnownTools, listed: Sequence[ToolDefinition], *, accept_new: bool, at: float
) -> list[KnownDefinition]:
    """Definitions, or changes of them, that a listing adds to the known ones. The first listing of a server is accepted
    as it is. Later, new tools are accepted if `accept_new`; changed ones, and those that look like one that is gone,
    wait for the person."""
    gone = _Gone(known, {it.name for it in listed})
    added: list[KnownDefinition] = []
    for it in listed:
        ours, digest = known.get(it.name, {}), definition_digest(it)
        found = ours.get(digest)
        if found is not None:
            if accept_new and not found.is_accepted and not found.former:
                added.append(replace(found, accepted_at=at))
            continue
        marks = _marks(it)
        former = it.name if any(one.is_accepted for one in ours.values()) else gone.former_of(marks)
        is_accepted = not known or (accept_new and not former)
        added.append(KnownDefinition(server, it.name, digest, former, at, at if is_accepted else None, *marks))
    return added


class _Gone:
    def __init__(self, known: KnownTools, names: set[str]) -> None:
        self._tools: dict[str, str] = {}
        for tool, definitions in known.items():
            if tool in names:
                continue
            for it in definitions.values():
                if it.is_accepted:
                    self._tools |= dict.fromkeys(filter(None, (it.description_mark, it.schema_mark)), tool)

    def former_of(self, marks: tuple[str, str]) -> str:
        return next((self._tools[mark] for mark in marks if mark in self._tools), "")


def by_tool(definitions: Iterable[KnownDefinition]) -> dict[str, dict[str, KnownDefinition]]:
    found: dict[str, dict[str, KnownDefinition]] = {}
    for it in definitions:
        found.setdefault(it.tool, {})[it.digest] = it
    return found


def _marks(tool: ToolDefinition) -> tuple[str, str]:
    has_properties = bool(tool.input_schema.get("properties"))
    schema = json.dumps(tool.input_schema, sort_keys=True, default=str) if has_properties else ""
    return _mark("description", " ".join(tool.description.split())), _mark("schema", schema)


def _mark(kind: str, text: str) -> str:
    return digest_of(f"{kind} {text}")[:_MARK_CHARACTERS] if text else ""


def _canonical(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(item, name) for name, item in value.items()}
    if isinstance(value, list):
        if key == "required" and all(isinstance(item, str) for item in value):
            return sorted(value)
        return [_canonical(item, "") for item in value]
    if isinstance(value, str) and key in ("description", "title"):
        return " ".join(value.split())
    return value


def fields_of(text: str) -> dict[str, Any]:
    """The fields of a canonical text; empty for one that was too large to be stored."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def waiting(definitions: Iterable[KnownDefinition]) -> Iterator[KnownDefinition]:
    return (it for it in definitions if not it.is_accepted)
