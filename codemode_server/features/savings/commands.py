"""The `stats` command: the tokens that the model read and wrote, against what direct calls would have cost."""

from __future__ import annotations

import argparse
import textwrap
import time
from typing import TYPE_CHECKING

import anyio

from codemode_server.cli.arguments import count, days
from codemode_server.cli.terminal import configuration, show, table
from codemode_server.config import LoadedSettings
from codemode_server.domain.savings import METHOD, TokenUsage
from codemode_server.features.savings.savings_store import SavingsStore
from codemode_server.records.executions import stored_records
from codemode_server.support.text import one_line

if TYPE_CHECKING:
    from codemode_server.app import App

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
    page = anyio.run(_page, configuration(parsed), parsed)
    show(page or f"nothing counted in the last {parsed.since:g} days; programs that a host runs are counted")
    return 0


async def status_lines(app: App) -> list[str]:
    """The savings of the last days; nothing if nothing was counted."""
    with stored_records(app.loaded) as records:
        total = await SavingsStore(records.database).total(records.principal, time.time() - _DAYS * 86_400)
    more = "`codemode-server stats` shows more"
    if not total.exchanges:
        return []
    saved = total.saved()
    against = f"{total.spent():,} against {total.direct():,} with direct calls"
    said = f"about {saved:,} saved" if saved >= 0 else f"about {-saved:,} more than direct calls cost"
    return [f"tokens: {said} in the last {_DAYS:g} days ({against}); {more}"]


async def _page(loaded: LoadedSettings, parsed: argparse.Namespace) -> str:
    """The numbers for a terminal of 80 columns; empty if nothing was counted."""
    mask, by = loaded.redactor.text, parsed.by
    heads: tuple[str, ...]
    rows: list[tuple[str, tuple[int, ...]]]
    with stored_records(loaded) as records:
        store, which = SavingsStore(records.database), (records.principal, time.time() - parsed.since * 86_400)
        total = await store.total(*which)
        if not total.exchanges:
            return ""
        if by == "server":
            heads = ("server", "calls", "arguments", "results", "together")
            tokens = [(it.name, it.tokens) for it in await store.servers(*which, parsed.limit)]
            rows = [(name, (it.calls, it.arguments, it.results, it.arguments + it.results)) for name, it in tokens]
        else:
            heads = (by, "programs", "calls", "spent", "direct", "saved", "uncached")
            found = await (store.days if by == "day" else store.executions)(*which, parsed.limit)
            usages = [(it.name, it.usage) for it in found]
            rows = [(name, _numbers(usage)) for name, usage in [*usages, ("all", total)]]
    cells = [
        (one_line(mask(name), _MAX_NAME_CHARACTERS), *(f"{number:,}" for number in numbers)) for name, numbers in rows
    ]
    explained = [*([] if by == "server" else _COLUMNS.splitlines()), *textwrap.wrap(METHOD, 80)]
    return "\n".join([*table([heads, *cells], numbers_from=1), "", *_summary(total), *explained])


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
