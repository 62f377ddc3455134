"""What the page of servers shows and does, as it needs it; implemented on the configuration and the stores.

Secrets of the configuration are masked already; nothing is escaped yet.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

_KEY_CHARACTERS = 16


def key_of(name: str) -> str:
    """What addresses and forms of the pages have in place of a name that a server or a file gave."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARACTERS]


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A definition that waits for a review."""

    title: str
    key: str
    """`key_of` the tool's name."""
    lines: tuple[str, ...]
    """What differs, as a unified diff."""


@dataclass(frozen=True, slots=True)
class ToolReview:
    """All that waits of one tool, whole."""

    changes: tuple[ToolChange, ...]
    digest: str
    """Of what is shown; the form sends it, so that nothing else is accepted."""
    terminal: str
    """The command to review it with if the page can't show all of it; empty if it does."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server."""

    name: str
    key: str
    """`key_of` its name in the configuration, which `name` shows with secrets masked."""
    state: str
    tools: int
    tokens: int
    error: str = ""
    has_sign_in: bool = False
    """Whether a person can sign in to it, as far as the configuration says."""
    changes: tuple[ToolChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Servers:
    """All servers, as of the last run or as a check found them."""

    servers: tuple[ServerStatus, ...]
    checked_at: float | None
    is_checking: bool
    done: str = ""
    """What the person did last on this page, and what follows from it."""


@dataclass(frozen=True, slots=True)
class SignInState:
    """A sign-in that was begun on the page."""

    is_running: bool
    is_done: bool
    """Whether the person is signed in now."""
    text: str
    """How it ended; empty while it runs."""
    address: tuple[str, str, str]
    """What to open, in three pieces, of which the second is its host; empty pieces if there is none (yet, any more)."""


@dataclass(frozen=True, slots=True)
class SignInPage:
    """The page of the sign-in to one server."""

    name: str
    url: str
    """Of the server."""
    state: SignInState | None


class ServerRecords(Protocol):
    """Every method raises a `CodemodeError` with a message for the person if it can't do what it should."""

    async def servers(self) -> Servers: ...

    def check(self) -> None:
        """Start to connect to every server, to see its state."""

    async def switch(self, key: str, *, is_enabled: bool) -> None:
        """Switch a server on or off in the configuration."""

    async def review(self, key: str, tool_key: str) -> ToolReview | None:
        """What waits of a tool; None if nothing does (any more)."""

    async def accept(self, key: str, tool_key: str, digest: str) -> bool:
        """Accept what a review with this digest showed; False, and nothing is accepted, if it would show something
        else by now."""

    async def sign_in(self, key: str) -> SignInPage:
        """The sign-in to a server."""

    async def begin_sign_in(self, key: str) -> None: ...

    async def cancel_sign_in(self, key: str) -> None: ...
