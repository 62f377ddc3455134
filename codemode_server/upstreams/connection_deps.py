"""`ConnectionDeps`: dependencies that the pool passes to every connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.input_requests import Feature
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.auth.command_headers import CommandHeaders
from codemode_server.upstreams.auth.sign_ins import SignIns
from codemode_server.upstreams.auth.tokens import ServerTokens
from codemode_server.upstreams.cache import ListingCache
from codemode_server.upstreams.messages import MAX_MESSAGE_BYTES

_ENVELOPE_BYTES = 4 * 2**10


@dataclass(frozen=True, slots=True)
class Timings:
    """Timeouts and pauses in seconds. The defaults are for real servers; tests shorten them."""

    probe_s: float = 3.0
    """How long the newer protocol's probe is waited for before the handshake is sent as well."""
    connect_s: float = 90.0
    """From the start to the list of tools. `npx` and `uvx` download on their first run; no call waits for it."""
    list_s: float = 60.0
    call_wait_s: float = 30.0
    """How long a call waits for a server that is starting."""
    nudge_every_s: float = 5.0
    """A call to a server that is down makes it reconnect at once, but not more often than this."""
    backoff_first_s: float = 1.0
    backoff_most_s: float = 60.0
    healthy_s: float = 30.0
    """A connection that lasted this long resets the pause before the next attempt to `backoff_first_s`."""
    slot_s: float = 1.5
    """How long a starting server delays the start of others."""
    subscribe_s: float = 1.0
    """How long the first listing waits for the stream of changes to open, so that no change falls between the two."""
    offers_s: float = 5.0
    """How long a server whose tools are listed waits for its resources and prompts, before it counts as connected."""
    roots_s: float = 5.0
    """How long a connection of a session waits until the host has told the server its folders."""
    debounce_s: float = 0.1
    """Pause after a change notification: a server that changes its tools often sends many."""


@dataclass(slots=True)
class ConnectionDeps:
    """Dependencies of a connection, shared by its pool."""

    cache: ListingCache
    reaper: Reaper
    on_change: Callable[[], None]
    config: LiveConfig = field(default_factory=LiveConfig)
    timings: Timings = field(default_factory=Timings)
    slots: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(8))
    """Limits how many processes start at the same moment."""
    sign_ins: SignIns | None = None
    tokens: ServerTokens | None = None
    """Those of this connection's server; None if requests to it carry none."""
    command_headers: CommandHeaders | None = None
    """Those that a command prints for this connection's server."""

    def for_server(self, name: str, settings: ServerSettings) -> ConnectionDeps:
        """The same for one connection."""
        tokens = self.sign_ins.tokens(name, settings) if self.sign_ins is not None else None
        headers = None
        if settings.url is not None and settings.headers_command is not None:
            mask = partial(self.sign_ins.mask_also, name) if self.sign_ins is not None else lambda _: None
            headers = CommandHeaders(name, settings.url, settings.headers_command, mask=mask)
        return replace(self, tokens=tokens, command_headers=headers)

    host_features: set[Feature] = field(default_factory=set)
    """Features that the hosts of this product have declared, all together; one set for all connections."""

    def redactor(self) -> Redactor:
        return self.config.redactor

    def message_bytes(self) -> int:
        """Longest message that is taken: a list of tools may be larger than a result."""
        return max(self.config.settings.limits.call_bytes, MAX_MESSAGE_BYTES) + _ENVELOPE_BYTES
