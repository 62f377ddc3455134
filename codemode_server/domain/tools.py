"""Tools and the servers that offer them, as the upstreams declared them. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.resources import PromptDefinition, ResourceDefinition


class Effect(StrEnum):
    """Effect of a tool according to its annotations; a claim of the upstream, not a fact."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    UNKNOWN = "unknown"


EFFECTS_OF_SETTINGS = {"read": Effect.READS, "write": Effect.WRITES, "destructive": Effect.DESTROYS}
"""By the words of upstream.yaml and the terminal."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why every call of a tool is refused."""

    reason: str
    """The rule of the permissions that decides."""
    advice: str = ""

    @property
    def predicate(self) -> str:
        """`is not permitted: rule 1 of permissions.rules (deny: github/delete_*)`, after the name of the tool."""
        return f"is not permitted: {self.reason.rstrip('.')}"

    def message(self, title: str) -> str:
        return f"{title} {self.predicate}" + (f". {self.advice}" if self.advice else "")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    name: str
    """The upstream's own word for it; the only name that is ever sent to it."""
    description: str = ""
    title: str | None = None
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    effect: Effect = Effect.UNKNOWN
    is_closed_world: bool = False
    """True if it declares that it deals with nothing outside of its server (`openWorldHint: false`)."""
    needs_task: bool = False
    """True if it can only be called as a task (protocol 2025-11-25)."""
    digest: str = ""
    """Digest of all this as the upstream declared it, regardless of settings; see `definitions.canonical_text`."""


@dataclass(frozen=True, slots=True)
class ResultForm:
    """The form that a tool declares for its result, or has had so far, for results that come as texts."""

    is_list: bool = False
    """True if it gives a list, also for no item and for one."""
    holds_texts: bool = False
    """True if the items of the list are texts."""
    scalars: frozenset[str] = frozenset()
    """JSON types of the result, or of its items, if no text is among them."""
    may_be_null: bool = False
    """True if null is declared in place of the list."""


ANY_FORM = ResultForm()


def definition_text(tool: ToolDefinition) -> str:
    """A tool as plain MCP shows it to a model: name, description and input schema as JSON without spaces."""
    shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=str)


STDOUT_MARK = "; its stdout began with: "
"""In an upstream's error: between what happened and text on stdout that is no message."""
STDERR_MARK = "; its stderr ends with:\n"
"""In an upstream's error: between what happened and the last lines that its process wrote to stderr."""


def without_output(error: str) -> str:
    """An upstream's error without what its process wrote."""
    return error.partition(STDERR_MARK)[0].partition(STDOUT_MARK)[0]


class UpstreamState(StrEnum):
    """An upstream is …"""

    DISABLED = "disabled"  # `enabled: false` in the configuration
    WAITING = "waiting"  # not tried yet, or ended
    CONNECTING = "connecting"  # process or connection being opened, tools being listed
    READY = "ready"  # connected; calls go through
    SIGNED_OUT = "needs a sign-in"  # not connected until the person signs in
    FAILED = "failed"  # not connected; tried again after a pause
    INVALID = "invalid"  # its entry in the configuration can't be used; nothing of it is started


@dataclass(frozen=True, slots=True)
class UpstreamListing:
    """One upstream and its tools, live or from the last run's cache; the catalog is built from these."""

    name: str
    state: UpstreamState
    tools: tuple[ToolDefinition, ...] = ()
    description: str = ""
    """From `upstream.yaml`, else the server's purpose in its own words."""
    protocol: str | None = None
    """The negotiated protocol version, for instance `2026-07-28`; `None` until connected."""
    error: str | None = None
    """Why it is not ready; while it is connected again, why the last attempt failed; None if neither is known."""
    error_for_person: str | None = None
    """The same as the person may read it, where the model may not read all of it."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The reason by name for each tool that can't be used, because it breaks the protocol."""
    problems: tuple[str, ...] = ()
    """A line for each other problem with its tools, resources and prompts."""
    last_tools: tuple[str, ...] = ()
    """For a disabled server: the names of the tools that it had when it was last used."""
    resources: tuple[ResourceDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
