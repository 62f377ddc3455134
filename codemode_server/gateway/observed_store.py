"""Where what was observed of tools' results is kept between runs: the contract.

The text is `catalog.observed.Observed` as JSON, which who keeps it need not understand. Neither method raises: what
can't be kept is seen again in later calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from codemode_server.catalog.observed import ToolKey as ToolKey


class ObservedTypeStore(Protocol):
    """Called on the event loop, so both must be quick."""

    def load(self) -> dict[ToolKey, str]:
        """All that is kept."""

    def update(self, changes: Mapping[ToolKey, Callable[[str | None], str]]) -> bool:
        """Replace what is kept by what each function makes of it (None for nothing), all in one transaction, so that
        another product on the same database loses nothing. False if that was not possible."""
