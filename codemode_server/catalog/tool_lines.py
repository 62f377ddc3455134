"""The line about a tool in folders and search results, and the remark of a folder on tools that no program may call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from codemode_server.catalog.catalog import RefusalOf, Server, Tool
from codemode_server.catalog.resources import Resource
from codemode_server.catalog.untrusted import one_line
from codemode_server.domain.tools import Effect, Refusal

AsksFirst = Callable[[Server, Tool], bool]
ASKS_FIRST = "asks the user first"
_MAX_REASON_CHARACTERS = 160
_MAX_REASONS = 3


def never_asks(_server: Server, _tool: Tool) -> bool:
    return False


def tool_line(tool: Tool, mark: str = "", *, asks_first: bool = False) -> str:
    """The text shown after a tool's name on one line; `mark` says that it can't be called."""
    stated = "" if tool.effect is Effect.UNKNOWN else str(tool.effect)
    effects = ", ".join(filter(None, [stated, ASKS_FIRST if asks_first and not mark else ""]))
    effect = f"({effects})" if effects else ""
    mark = f"[{mark}]" if mark else ""
    deprecated = "(deprecated)" if tool.deprecation and "deprecated" not in tool.summary.lower() else ""
    return " ".join(part for part in (tool.summary, deprecated, effect, mark) if part)


def short_refusal(refusal: Refusal | None) -> str:
    """`not permitted`, without the reason; empty if the tool can be called."""
    return "not permitted" if refusal else ""


def refusal_line(refusal: Refusal | None) -> str:
    """Why a tool can't be called, bounded; empty if it can."""
    return one_line(refusal.predicate, _MAX_REASON_CHARACTERS) if refusal else ""


def refused(server: Server, listed: Iterable[Tool | Resource], refusal_of: RefusalOf) -> list[str]:
    """How many tools or resources of a server are refused, for each reason."""
    refusals = Counter(refusal for one in listed if (refusal := refusal_of(server, one)))
    by_number = refusals.most_common()
    remarks = [
        f"{count} not permitted: {one_line(refusal.reason, _MAX_REASON_CHARACTERS)}"
        for refusal, count in by_number[:_MAX_REASONS]
    ]
    if rest := sum(count for _, count in by_number[_MAX_REASONS:]):
        remarks.append(f"{rest} refused by other rules")
    return remarks
