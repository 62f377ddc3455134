"""Runs the static check: what rejects a program, and what is reported beside its result."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from codemode_server.catalog.catalog import Catalog, RefusalOf, no_refusal
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import ResultKey
from codemode_server.sandbox.packages.installed import NO_PACKAGES, Packages
from codemode_server.support.off_loop import without_collector
from codemode_server.support.text import first_lines

if TYPE_CHECKING:  # imported with the first program: a host waits for its handshake first
    from codemode_server.executions.preflight.findings import Finding
    from codemode_server.executions.preflight.reading import Reading

logger = logging.getLogger(__name__)

_Made = TypeVar("_Made")
_NAMING_TOOLS = re.compile("(?<![a-zA-Z])(?:servers|codemode|clients?|mcp|tools?|calls?)(?![a-z])")
"""A program with none of these can hardly name a tool, so it does not wait for the first listing of the servers."""
_MAX_SHOWN = 5
LARGE_CHARACTERS = 2 * 1024
"""A program of this size holds the event loop up for about 10 ms."""
_MAX_BROKEN = 8 * 1024
"""Characters of a program that can't be parsed; the search for what is wrong parses it again and again."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Facts that the check uses beyond the program's text and the catalog."""

    importable: frozenset[str] | None = None
    """The top-level modules that the sandbox has; None if that is not known."""
    last_result: Callable[[], tuple[str, str]] = lambda: ("", "")
    """The name of the last result of the session that programs can read, and its form; empty if there is none."""
    refusal_of: RefusalOf = no_refusal
    """Tells which tools the program's principal may not call."""
    may_be_in_workspace: Callable[[str], bool] = lambda _name: False
    """Predicate: /workspace may have a module of this name."""
    why_no_skill: Callable[[str], str] | None = None
    """Says that there is no skill of a name; empty if there is one. None if that is not known."""
    is_module: bool = False
    """True if the text is itself to be imported: its functions count as called."""
    packages: Packages = NO_PACKAGES
    """Those of the sandbox."""


_NOTHING_KNOWN = CheckContext()


@dataclass(frozen=True, slots=True)
class Checked:
    errors: tuple[Finding, ...] = ()
    """Each would surely fail; the program must not run."""
    warnings: tuple[Finding, ...] = ()
    imports: tuple[str, ...] = field(default=(), compare=False)
    """Modules of servers and tools that the program imports."""

    @property
    def message(self) -> str:
        """The errors as the model reads them."""
        return "\n".join(["not run:", *_lines(self.errors)])

    @property
    def doubted_keys(self) -> frozenset[ResultKey]:
        """Keys that are reported because no result is known to have them."""
        return frozenset(finding.doubted for finding in self.warnings if finding.doubted and finding.doubted.key)

    def warning_lines(self, is_refuted: Callable[[ResultKey], bool] = lambda _: False, error: str = "") -> list[str]:
        """The warnings as the model reads them, without those that the run refuted or whose text is in its error."""
        shown = (it for it in self.warnings if it.doubted is None or not is_refuted(it.doubted))
        return _lines(tuple(it for it in shown if it.message not in error))


@dataclass(slots=True, kw_only=True)
class Preflight:
    """Checks programs against the catalog as of now."""

    catalog: Callable[[], Catalog]
    listed: Callable[[], Awaitable[None]]
    config: LiveConfig
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Large programs are checked one at a time: each thread that computes delays the event loop."""

    async def check(self, code: str, context: CheckContext = _NOTHING_KNOWN) -> Checked:
        """Never raises for anything that the program or an upstream does."""
        strictness = self.config.settings.types.check
        if strictness == "none":
            return Checked()
        try:
            if _NAMING_TOOLS.search(code):
                await self.listed()
            async with self._turn if len(code) > LARGE_CHARACTERS else nullcontext():
                found, imports = await self._findings(code, context)
        except Exception:  # an internal error is no reason not to run a program
            logger.exception("a program could not be checked, and runs unchecked")
            return Checked()
        errors = tuple(finding for finding in found if finding.is_sure and strictness == "errors")
        return Checked(errors, tuple(finding for finding in found if finding not in errors), imports)

    async def _findings(self, code: str, context: CheckContext) -> tuple[list[Finding], tuple[str, ...]]:
        """The findings, and the modules of servers and tools that the program imports."""
        from codemode_server.executions.preflight.findings import syntax_findings
        from codemode_server.executions.preflight.reading import read

        is_large, catalog = len(code) > LARGE_CHARACTERS, self.catalog()
        reading = await _worked(is_large, read, code)
        if reading is None:
            is_short = len(code) <= _MAX_BROKEN
            return (await _worked(True, syntax_findings, code, catalog) if is_short else []), ()
        return await _worked(is_large, _found, reading, catalog, context)


async def _worked(is_large: bool, work: Callable[..., _Made], *arguments: Any) -> _Made:
    """Large texts are checked in a thread, so that other programs go on meanwhile."""
    return await anyio.to_thread.run_sync(without_collector, work, *arguments) if is_large else work(*arguments)


def _found(reading: Reading, catalog: Catalog, context: CheckContext) -> tuple[list[Finding], tuple[str, ...]]:
    """As `Preflight._findings`, for a program that can be parsed."""
    from codemode_server.executions.preflight.findings import Findings
    from codemode_server.executions.preflight.imports import imported_tools
    from codemode_server.executions.preflight.result_types import result_findings

    own = Findings(reading, catalog, context)
    found = own.all()
    if own.calls and (more := result_findings(own)):
        lines = {finding.line for finding in found}
        found += dict.fromkeys([finding for finding in more if finding.line not in lines])
        found.sort(key=lambda finding: finding.line)
    return found, imported_tools(reading)


def _lines(findings: tuple[Finding, ...]) -> list[str]:
    return first_lines([f"line {finding.line}: {finding.message}" for finding in findings], _MAX_SHOWN)
