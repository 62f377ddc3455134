"""The `stats` command: the tokens that the model read and wrote, against what direct calls would have cost."""

from __future__ import annotations

import argparse
import textwrap
import time
from contextlib import closing
from functools import partial

import anyio

from codemode_server.cli.arguments import count, days
from codemode_server.cli.terminal import configuration, show, table
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.savings import METHOD, Grouping, Savings, TokenUsage
from codemode_server.first_listing import state_folder
from codemode_server.records.state_database import has_database
from codemode_server.redaction import Redactor
from codemode_server.storage.database import Database
from codemode_server.storage.sqlite_savings import SqliteSavings
from codemode_server.text import one_line

_DAYS = 30.0
_MAX_ROWS = 60
_MAX_NAME_CHARACTERS = 24
_COLUMNS = """\
spent     tokens that the model wrote (programs, searches) and read (answers) here
direct    tokens if it called each tool itself and read all definitions and results
saved     direct less spent, where the provider caches definitions (a tenth of the price)
uncached  direct less spent, without such a cache; a negative number is a loss
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=("day", "server", "execution"), default="day", help="default: day")
    parser.add_argument("--since", type=days, default=_DAYS, metavar="DAYS", help="so many days back; default 30")
    parser.add_argument("--limit", type=count, default=_MAX_ROWS, metavar="COUNT", help=f"rows; default {_MAX_ROWS}")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed)
    since = time.time() - parsed.since * 86_400
    found = anyio.run(partial(read, loaded, since, by=parsed.by, limit=parsed.limit))
    none = f"nothing counted in the last {parsed.since:g} days; programs that a host runs are counted"
    show(_page(loaded, found, parsed.by) if found.total.exchanges else none)
    return 0


async def read(loaded: LoadedSettings, since: float, *, by: Grouping | None = None, limit: int = _MAX_ROWS) -> Savings:
    """The usage of the local principal, in groups of one kind or only the sum."""
    principal = local_principal(loaded.settings)
    if not has_database(loaded):
        return Savings(since, TokenUsage())
    with closing(Database(state_folder(loaded.settings))) as database:
        store = SqliteSavings(database)
        total = await store.total(principal, since)
        match by:
            case "server":
                return Savings(since, total, servers=tuple(await store.servers(principal, since, limit)))
            case "day":
                return Savings(since, total, days=tuple(await store.days(principal, since, limit)))
            case "execution":
                return Savings(since, total, executions=tuple(await store.executions(principal, since, limit)))
    return Savings(since, total)


async def status_line(loaded: LoadedSettings) -> str:
    """A line on the savings of the last days; empty if nothing was counted."""
    total = (await read(loaded, time.time() - _DAYS * 86_400)).total
    more = "`codemode-server stats` shows more"
    if not total.exchanges:
        return ""
    saved = total.saved()
    against = f"{total.spent():,} against {total.direct():,} with direct calls"
    said = f"about {saved:,} saved" if saved >= 0 else f"about {-saved:,} more than direct calls cost"
    return f"tokens: {said} in the last {_DAYS:g} days ({against}); {more}"


def _page(loaded: LoadedSettings, savings: Savings, by: Grouping) -> str:
    """The numbers for a terminal of 80 columns."""
    mask = Redactor(loaded.secrets).text
    heads: tuple[str, ...]
    rows: list[tuple[str, tuple[int, ...]]]
    if by == "server":
        heads = ("server", "calls", "arguments", "results", "together")
        tokens = [(it.name, it.tokens) for it in savings.servers]
        rows = [(name, (it.calls, it.arguments, it.results, it.arguments + it.results)) for name, it in tokens]
    else:
        heads = (by, "programs", "calls", "spent", "direct", "saved", "uncached")
        usages = [(it.name, it.usage) for it in (savings.days if by == "day" else savings.executions)]
        rows = [(name, _numbers(usage)) for name, usage in [*usages, ("all", savings.total)]]
    cells = [
        (one_line(mask(name), _MAX_NAME_CHARACTERS), *(f"{number:,}" for number in numbers)) for name, numbers in rows
    ]
    explained = [*([] if by == "server" else _COLUMNS.splitlines()), *textwrap.wrap(METHOD, 80)]
    return "\n".join([*table([heads, *cells], numbers_from=1), "", *_summary(savings.total), *explained])


def _numbers(usage: TokenUsage) -> tuple[int, ...]:
    spent, direct = usage.spent(), usage.direct()
    return usage.executions, usage.calls, spent, direct, usage.saved(), usage.saved(is_cached=False)


def _summary(total: TokenUsage) -> list[str]:
    """In whole sentences, so that a loss is as plain as a gain."""
    lines = []
    for is_cached in (True, False):
        saved, direct = total.saved(is_cached=is_cached), total.direct(is_cached=is_cached)
        share = f" ({abs(saved) / direct:.0%})" if direct else ""
        said = f"saved about {saved:,} tokens" if saved >= 0 else f"cost about {-saved:,} tokens more than direct calls"
        lines.append(f"{'with a cache' if is_cached else 'without a cache'}: {said}{share}")
    if total.saved() < 0:
        lines.append("small tasks cost more than they save; programs with several calls or large results save most")
    return lines
