"""Where the definitions of tools are stored that were seen and accepted, for each principal and server: the contract.

Implementations pass `tests/conformance/test_definitions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codemode_server.domain.definitions import KnownDefinition, ListedDefinition
from codemode_server.domain.principals import Principal

MAX_WAITING = 5
"""Definitions of one tool that wait for a review; the oldest are forgotten."""
MAX_ACCEPTED = 10
"""Accepted definitions of one tool, to which it may return; the oldest are forgotten."""
MAX_DEFINITIONS = 20_000
"""Definitions of one server; a tool that would be beyond it is not stored, so it stays one that nobody accepted."""
MAX_TEXT_BYTES = 16 * 2**20
"""Size of all texts of one server, compressed; definitions beyond it are stored without their text."""


class DefinitionStore(Protocol):
    """All methods raise `JournalUnavailable` if the store can't be used."""

    def known(self, principal: Principal, server: str | None = None, tool: str | None = None) -> list[KnownDefinition]:
        """The definitions of this principal, of one server or tool by its raw name if one is given. Blocks briefly."""

    def text(self, principal: Principal, server: str, tool: str, digest: str) -> str:
        """The canonical text of a definition; empty if it is not stored (any more). Blocks briefly."""

    async def take(
        self, principal: Principal, server: str, listed: Sequence[ListedDefinition], *, accept_new: bool, at: float
    ) -> list[KnownDefinition]:
        """Add what `domain.definitions.new_definitions` says of a listing; returns what is known of the server then.

        Products that take listings of one server at once see each other's: only one of them is the first.
        """

    async def accept(self, principal: Principal, definition: KnownDefinition, *, at: float) -> bool:
        """Note that the person accepts it; False if it is not known (any more)."""
