"""Both parts of the check in turn, as the executor asks for it: what stops a program, and what is told beside its
result."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import anyio.to_thread

from codemode_server.catalog.catalog import Catalog
from codemode_server.execution.preflight.findings import Finding, Findings
from codemode_server.execution.preflight.reading import read

logger = logging.getLogger(__name__)

Strictness = Literal["errors", "warnings", "none"]
_MOST_TOLD = 5
_LARGE = 8 * 1024
"""Characters; what is larger is read in a thread, so that other programs go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found."""

    errors: tuple[Finding, ...] = ()
    """Each would surely fail; the program must not run."""
    warnings: tuple[Finding, ...] = ()

    @property
    def message(self) -> str:
        """The errors as the model is told of them."""
        return "\n".join(["nothing was run; no call was made.", *_lines(self.errors)])

    @property
    def told_warnings(self) -> list[str]:
        return _lines(self.warnings)


class Preflight:
    """Checks programs against the catalog as of now."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        listed: Callable[[], Awaitable[None]],
        strictness: Callable[[], Strictness],
    ) -> None:
        self._catalog = catalog
        self._listed = listed
        self._strictness = strictness

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Preflight]:
        yield self

    async def check(self, code: str) -> Checked:
        """Never raises for anything that the program or an upstream does."""
        strictness = self._strictness()
        if strictness == "none":
            return Checked()
        try:
            found = await self._findings(code)
        except Exception:  # a fault of ours is no reason not to run a program
            logger.exception("a program could not be checked, and runs unchecked")
            return Checked()
        if strictness == "warnings":
            return Checked((), tuple(found))
        errors = tuple(finding for finding in found if finding.is_sure)
        return Checked(errors, tuple(finding for finding in found if not finding.is_sure))

    async def _findings(self, code: str) -> list[Finding]:
        reading = read(code)
        if reading is None:
            return []
        if "servers" in code or "codemode" in code or "client" in code:
            await self._listed()
        catalog = self._catalog()
        if len(code) > _LARGE:
            return await anyio.to_thread.run_sync(lambda: Findings(reading, catalog).all())
        return Findings(reading, catalog).all()


def _lines(findings: tuple[Finding, ...]) -> list[str]:
    lines = [f"line {finding.line}: {finding.message}" for finding in findings[:_MOST_TOLD]]
    return [*lines, f"… {len(findings) - _MOST_TOLD} more"] if len(findings) > _MOST_TOLD else lines
