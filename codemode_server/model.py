"""Ids and records that several stages share; no I/O of any kind."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

ExecutionId = NewType("ExecutionId", str)
"""One `execute_code`, for instance `x7f3a9c21b04`."""

JsonValue = Any
"""Anything `json.loads` gives."""

JsonSchema = dict[str, Any]
"""A JSON Schema object as an upstream declared it, unchecked."""


@dataclass(frozen=True, slots=True)
class Session:
    """Whose program it is: one host, from its connection to its end."""

    session_id: str
    is_passing: bool = False
    """Whether it ends with this one request, so that nothing need be kept for it."""


class Effect(StrEnum):
    """What a tool says of itself in its annotations; a claim of the upstream, not a fact."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool as its upstream declared it."""

    name: str
    """The upstream's own word for it; the only name that is ever sent to it."""
    description: str = ""
    title: str | None = None
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    effect: Effect = Effect.UNKNOWN
    needs: str = ""
    """What a client must support for it and codemode-server does not, for instance `elicitation`; calls are refused."""

    @property
    def refusal(self) -> str:
        """Why every call is refused; empty for nearly all tools."""
        reason = f"can't be called: it needs {self.needs}, which codemode-server does not support yet"
        return reason if self.needs else ""


@dataclass(frozen=True, slots=True)
class Skill:
    """One saved program, importable as `skills.<name>`."""

    name: str
    summary: str
    """The first line of its docstring."""
    function: str = ""
    """The function to import from it: the one of its own name, else its first public one, if it has any."""
    signature: str = ""
    """Signature of that function, on one line."""

    @property
    def import_line(self) -> str:
        return f"from skills.{self.name} import {self.function}" if self.function else f"import skills.{self.name}"


def definition_text(tool: ToolDefinition) -> str:
    """A tool as plain MCP shows it to a model: name, description and input schema as JSON without spaces."""
    shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=str)


class UpstreamState(StrEnum):
    """An upstream is …"""

    DISABLED = "disabled"  # `enabled: false` in the configuration
    WAITING = "waiting"  # not tried yet
    CONNECTING = "connecting"  # process or connection being opened, tools being listed
    READY = "ready"  # connected; calls go through
    FAILED = "failed"  # not connected; tried again after a pause
    INVALID = "invalid"  # its entry in the configuration can't be used; nothing of it is started


@dataclass(frozen=True, slots=True)
class UpstreamListing:
    """What the catalog is built from: one upstream and the tools it offers, live or from the last run's cache."""

    name: str
    """The key in `upstream.yaml`."""
    state: UpstreamState
    tools: tuple[ToolDefinition, ...] = ()
    description: str = ""
    """From `upstream.yaml`, else the sentence in which the server says what it is for."""
    protocol: str | None = None
    """The negotiated protocol version, for instance `2026-07-28`; `None` until connected."""
    error: str | None = None
    """Why it is not ready, or None."""
    problems: tuple[str, ...] = ()
    """Tools that were left out of the listing because they break the protocol, a line each."""
    last_tools: tuple[str, ...] = ()
    """For a disabled server: the names of the tools that it had when it was last used."""


class IsolationLevel(StrEnum):
    """Where a program ran; stated in every result, trace and record."""

    MICROVM = "microvm"
    WASM = "wasm"
