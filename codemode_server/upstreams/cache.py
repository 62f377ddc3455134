"""The last run's listing of an upstream, so that its tools are known before it is connected: contract and JSON form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.resources import PromptArgument, PromptDefinition, ResourceDefinition
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.upstreams.transports.registry import transport_of

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class CachedListing:
    """One upstream as last listed. It has all tools: the settings' filter is applied later."""

    tools: tuple[ToolDefinition, ...] = ()
    description: str = ""
    """The server's purpose in one sentence, in its own words."""
    protocol: str | None = None
    """The protocol version that was negotiated."""
    protocol_mode: Literal["auto", "legacy"] = "auto"
    """`legacy`: the newer protocol's probe killed the server or was never answered; go straight to the handshake."""
    server_version: str | None = None
    """The server's own version string. When it changes, `protocol_mode` is discarded."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The reason by name for each tool that can't be used."""
    problems: tuple[str, ...] = ()
    """A line for each other problem with its tools."""
    stored_at: float = 0.0
    """Seconds since the epoch."""
    resources: tuple[ResourceDefinition, ...] = ()
    """With templates."""
    prompts: tuple[PromptDefinition, ...] = ()
    offer_problems: tuple[str, ...] = ()
    """A line for each problem with its resources and prompts."""
    asks_for_roots: bool = False
    """True if the server has asked for the host's folders by a request of its own (protocol 2025-11-25 and older)."""

    def to_json(self) -> str:
        # Not `asdict`, which copies every schema.
        plain = {it.name: getattr(self, it.name) for it in fields(self)}
        return json.dumps({"format": _FORMAT, **plain}, ensure_ascii=False, separators=(",", ":"), default=_fields)

    @classmethod
    def from_json(cls, text: str) -> CachedListing | None:
        """The listing that `to_json` wrote; None for anything else, such as another version's."""
        try:
            data = json.loads(text)
            if data.pop("format") != _FORMAT:
                return None
            data["tools"] = tuple(ToolDefinition(**{**it, "effect": Effect(it["effect"])}) for it in data["tools"])
            data["resources"] = tuple(ResourceDefinition(**it) for it in data["resources"])
            data["prompts"] = tuple(map(_prompt, data["prompts"]))
            data |= {name: tuple(data[name]) for name in ("problems", "offer_problems")}
            return cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None


def _fields(definition: Any) -> dict[str, Any]:
    return {it.name: getattr(definition, it.name) for it in fields(definition)}


def _prompt(data: dict[str, Any]) -> PromptDefinition:
    return PromptDefinition(**{**data, "arguments": tuple(PromptArgument(**it) for it in data["arguments"])})


class ListingCache(Protocol):
    """Stores listings between runs. Neither method may raise."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        """The upstream's listing, if it was stored with the same fingerprint. Blocks, unless it was asked before."""

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        """Store `listing` in place of the last one with this fingerprint."""


def fingerprint(settings: ServerSettings) -> str:
    """Digest of the settings that a stored listing depends on: how the server is reached; only names of `env` and
    `headers`."""
    return hashlib.sha256(json.dumps(transport_of(settings).identity(settings)).encode()).hexdigest()
