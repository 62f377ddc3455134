"""Tokens that the model read and wrote, compared with direct calls: values and sums. No I/O.

An exchange is one call of one of our tools by the host. `docs/operating.md` has the method and its assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal

CACHED_SHARE = 0.1
"""Price of a token in a model provider's prompt cache, as a share of the full price."""
MAX_ROWS = 400_000
"""The newest are stored, of all principals: one for each exchange, and one for each server that it called."""
MAX_RESULT_TOKENS = 25_000
"""Tokens of one result that count at most: about where Claude Code cuts the result of a tool."""
METHOD = (
    "Tokens are estimated, within a tenth of OpenAI's o200k for JSON and code. Each result counts once and at most "
    "25,000 tokens; definitions count once a turn, at a tenth where they are cached."
)
"""Note on the method, shown with the numbers."""


@dataclass(frozen=True, slots=True)
class ServerTokens:
    """The calls of one server, and what a model that made them itself would have written and read."""

    calls: int = 0
    arguments: int = 0
    results: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One call of one of our tools, and the direct calls that it stands for."""

    principal: Principal
    at: float
    tool: str
    execution_id: ExecutionId | None = None
    sent: int
    """Tokens that the model wrote: a program, a query."""
    returned: int
    """Tokens of the text that the host got."""
    own_definitions: int
    """Tokens of the definitions that this product gives to the host, with the instructions."""
    all_definitions: int = 0
    """Tokens of the definitions of all tools of all servers."""
    turns: int = 0
    """Turns of a model in which it would have sent the direct calls."""
    servers: Mapping[str, ServerTokens] = field(default_factory=dict)
    """The direct calls, by the raw names of their servers."""

    @property
    def usage(self) -> TokenUsage:
        return TokenUsage(
            exchanges=1,
            executions=int(self.execution_id is not None),
            calls=sum(it.calls for it in self.servers.values()),
            turns=self.turns,
            sent=self.sent,
            returned=self.returned,
            own_definitions=self.own_definitions,
            arguments=sum(it.arguments for it in self.servers.values()),
            results=sum(it.results for it in self.servers.values()),
            direct_definitions=self.all_definitions * self.turns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of some exchanges, and of the direct calls that they stand for. Definitions count once for each turn."""

    exchanges: int = 0
    executions: int = 0
    calls: int = 0
    turns: int = 0
    sent: int = 0
    returned: int = 0
    own_definitions: int = 0
    arguments: int = 0
    results: int = 0
    direct_definitions: int = 0

    def spent(self, *, is_cached: bool = True) -> int:
        """With this product. `is_cached`: definitions count a tenth."""
        return self.sent + self.returned + _priced(self.own_definitions, is_cached=is_cached)

    def direct(self, *, is_cached: bool = True) -> int:
        return self.arguments + self.results + _priced(self.direct_definitions, is_cached=is_cached)

    def saved(self, *, is_cached: bool = True) -> int:
        """Negative where this product cost more than direct calls."""
        return self.direct(is_cached=is_cached) - self.spent(is_cached=is_cached)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(**{it.name: getattr(self, it.name) + getattr(other, it.name) for it in fields(self)})


@dataclass(frozen=True, slots=True)
class UsageRow:
    name: str
    """`2026-11-25`, or the id of an execution."""
    at: float
    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class ServerRow:
    """Cost of direct calls of one server, without definitions."""

    name: str
    tokens: ServerTokens


def saved_text(usage: TokenUsage) -> str:
    """`saved ≈12,300 tokens`, or that it cost more; definitions cached."""
    saved = usage.saved()
    if saved < 0:
        return f"cost ≈{-saved:,} tokens more than direct calls"
    return f"saved ≈{saved:,} tokens"


def _priced(definitions: int, *, is_cached: bool) -> int:
    return round(definitions * CACHED_SHARE) if is_cached else definitions
