"""What the last run saw of an upstream, so that its tools are there before it is: the contract and its JSON form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from codemode_server.model import Effect, ToolDefinition
from codemode_server.settings import ServerSettings

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CachedListing:
    """One upstream as it was when it was last listed. All of its tools: the filter of the settings comes later."""

    tools: tuple[ToolDefinition, ...] = ()
    description: str = ""
    """What the server says of itself, first sentence."""
    protocol: str | None = None
    """The protocol version that was negotiated."""
    verdict: Literal["auto", "legacy"] = "auto"
    """`legacy`: the newer protocol's probe killed the server or was never answered; go straight to the handshake."""
    server_version: str | None = None
    """What the server called its version. When that changes, the verdict is forgotten."""
    problems: tuple[str, ...] = ()
    stored_at: float = 0.0
    """Seconds since the epoch."""

    def to_json(self) -> str:
        return json.dumps({"format": _FORMAT, **asdict(self)}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> CachedListing | None:
        """The listing that `to_json` wrote; None for anything else, such as another version's."""
        try:
            data = json.loads(text)
            if data.pop("format") != _FORMAT:
                return None
            tools = tuple(ToolDefinition(**{**tool, "effect": Effect(tool["effect"])}) for tool in data.pop("tools"))
            listing = cls(tools=tools, **{**data, "problems": tuple(data["problems"])})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return listing if _is_sound(listing) else None


def _is_sound(listing: CachedListing) -> bool:
    """Whether everything has the type it was written with; others trust that."""
    texts = [listing.description, *listing.problems]
    optional = [listing.protocol, listing.server_version]
    for tool in listing.tools:
        texts += [tool.name, tool.description]
        optional.append(tool.title)
        if not isinstance(tool.input_schema, dict) or not isinstance(tool.output_schema, dict | None):
            return False
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(text, str | None) for text in optional)
        and listing.verdict in ("auto", "legacy")
    )


class ListingCache(Protocol):
    """Where listings are kept between runs. Called on the event loop, so both must be quick; neither may raise."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        """The upstream's listing, if it was stored under the same fingerprint."""

    def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        """Keep `listing` in place of whatever the upstream had."""


@dataclass(slots=True)
class MemoryListingCache:
    """A `ListingCache` that lasts as long as the process."""

    kept: dict[str, tuple[str, CachedListing]] = field(default_factory=dict)

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        stored, listing = self.kept.get(name, (None, None))
        return listing if stored == fingerprint else None

    def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        self.kept[name] = (fingerprint, listing)


def fingerprint(settings: ServerSettings) -> str:
    """What a cached listing hangs on: the way the server is reached. Of `env` and `headers` the names only."""
    told: list[Any] = [
        settings.command,
        settings.args,
        settings.cwd,
        settings.url,
        settings.transport,
        sorted(settings.env),
        sorted(settings.headers),
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
