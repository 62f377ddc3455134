"""Prints a page in which privacy tokens are marked, and shows the person at the terminal what they stand for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import anyio

from codemode_server.cli.person_at_terminal import require_terminal, show_person
from codemode_server.cli.terminal import show
from codemode_server.config import LoadedSettings
from codemode_server.domain.privacy_tokens import TOKEN
from codemode_server.records.state_database import state_database
from codemode_server.records.token_reveals import TokenReveals, revealed_line
from codemode_server.text import escaped_lines

_MAX_REVEALED = 50
_BOLD_UNDERLINED, _NORMAL = "\x1b[1;4m", "\x1b[22;24m"


def show_with_tokens(loaded: LoadedSettings, page: str, *, is_text: bool, reveals: bool) -> None:
    """Print a page. At a terminal its tokens are marked if it `is_text`, and a last line says how to show one; with
    `reveals` the person is shown all of them, at the terminal itself.

    Raises:
        CodemodeError: `reveals` without a person at a terminal, or what they are shown can't be recorded.
    """
    if reveals:
        require_terminal()
    is_marked = is_text and sys.stdout.isatty()
    known = anyio.run(_known_in, loaded, page) if is_marked or reveals else []
    if is_marked and known:
        print(_marked(escaped_lines(page), known))
        if not reveals:
            print(f"\n{_hint(known)}")
    else:
        show(page)
    if reveals:
        show_person(anyio.run(_revealed, loaded, known))


def _marked(text: str, known: Sequence[str]) -> str:
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return TOKEN.sub(lambda it: f"{_BOLD_UNDERLINED}{it[0]}{_NORMAL}" if it[0] in known else it[0], text)


def _hint(known: Sequence[str]) -> str:
    more = f" and {len(known) - 1} more are privacy tokens" if len(known) > 1 else " is a privacy token"
    return (
        f"{known[0]}{more}; `codemode-server privacy show {known[0][1:-1]}` shows you what it stands for, and "
        "`--reveal` all of this page; the audit records it"
    )


async def _known_in(loaded: LoadedSettings, text: str) -> list[str]:
    with state_database(loaded) as thread:
        return [] if thread is None else await TokenReveals(loaded, thread).known_in(text)


async def _revealed(loaded: LoadedSettings, known: Sequence[str]) -> str:
    lines: list[str] = []
    with state_database(loaded) as thread:
        if thread is not None:
            reveals = TokenReveals(loaded, thread)
            lines = [revealed_line(await reveals.reveal(token)) for token in known[:_MAX_REVEALED]]
    if len(known) > _MAX_REVEALED:
        lines.append(f"… and {len(known) - _MAX_REVEALED:,} more; `codemode-server privacy show TOKEN` shows one")
    return "\n".join(lines) or "there are no privacy tokens in it"
