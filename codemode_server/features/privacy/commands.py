"""The `privacy` command: lists the privacy tokens of the principal, shows what one stands for, and forgets them. What a
token stands for is shown at the person's own terminal only, and recorded."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence

import anyio

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, local_time, person_confirms, require_terminal, show, show_person
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.privacy_tokens import KnownToken, revealed_line
from codemode_server.features.privacy.token_reveals import TokenReveals, stored_tokens
from codemode_server.records.executions import stored_records
from codemode_server.support.setting_types import seconds_of
from codemode_server.support.text import first_lines, one_line

_MAX_LISTED = 200
_MAX_NAMED = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the tokens, without what they stand for; the default")
    listing.add_argument("--kind", metavar="KIND", help="only those of this kind, such as `email`")
    listing.add_argument("--server", metavar="NAME", help="only those that results of this server had first")
    listing.add_argument("--json", action="store_true", help="print JSON")
    showing = actions.add_parser("show", help="show at this terminal what a token stands for; it is recorded")
    showing.add_argument("token", metavar="TOKEN", help="such as `<EMAIL_1>`, in quotes; EMAIL_1 works as well")
    forgetting = actions.add_parser("forget", help="have tokens stand for nothing any more; asks you")
    forgetting.add_argument("token", nargs="*", metavar="TOKEN", help="such as `<EMAIL_1>`, in quotes, or EMAIL_1")
    forgetting.add_argument("--all", action="store_true", help="all tokens")
    forgetting.add_argument("--kind", metavar="KIND", help="all tokens of this kind")
    forgetting.add_argument("--server", metavar="NAME", help="all tokens that results of this server had first")
    forgetting.add_argument("--older-than", metavar="TIME", help="all that no result had for this long: `30d`, `12h`")


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    tokens = anyio.run(_tokens, loaded)
    match parsed.action:
        case "show":
            require_terminal()
            show_person(anyio.run(_revealed, loaded, _named(tokens, [parsed.token])[0].token))
            return 0
        case "forget":
            return _forget(loaded, _chosen(tokens, parsed))
    tokens = _matching(tokens, parsed.kind, parsed.server)
    show(json.dumps([_as_json(it) for it in tokens], indent=2) if parsed.json else _page(tokens))
    return 0


def _forget(loaded: LoadedSettings, chosen: Sequence[KnownToken]) -> int:
    if not chosen:
        show("there is nothing to forget")
        return 0
    question = "Forget these? Programs and conversations that hold them can't use them any more."
    if not person_confirms(_page(chosen), question):
        show("nothing was forgotten")
        return 1
    anyio.run(_forget_tokens, loaded, chosen)
    show(f"forgotten: {_names(chosen)}")
    return 0


def _matching(tokens: Sequence[KnownToken], kind: str | None, server: str | None) -> list[KnownToken]:
    return [it for it in tokens if kind in (None, it.kind) and server in (None, it.server)]


def _chosen(tokens: Sequence[KnownToken], parsed: argparse.Namespace) -> Sequence[KnownToken]:
    if parsed.token:
        if parsed.all or parsed.kind or parsed.server or parsed.older_than:
            raise CodemodeError("privacy forget: give either tokens, or --all, --kind, --server, --older-than")
        return _named(tokens, parsed.token)
    if not (parsed.all or parsed.kind or parsed.server or parsed.older_than):
        raise CodemodeError(
            "privacy forget: say which: tokens such as EMAIL_1, --kind, --server, --older-than, or --all"
        )
    before = time.time()
    if parsed.older_than:
        try:
            before -= seconds_of(parsed.older_than)
        except ValueError as error:
            raise CodemodeError(f"privacy forget: --older-than {error}") from None
    return [it for it in _matching(tokens, parsed.kind, parsed.server) if it.used_at <= before]


def _named(tokens: Sequence[KnownToken], names: Sequence[str]) -> list[KnownToken]:
    by_name = {it.token: it for it in tokens}
    found: list[KnownToken] = []
    for name in names:
        token = name if name.startswith("<") else f"<{name}>"
        if token not in by_name:
            raise CodemodeError(
                f"there is no token {one_line(token, 80)}; `codemode-server privacy list` prints those there are"
            )
        found.append(by_name[token])
    return found


async def _tokens(loaded: LoadedSettings) -> Sequence[KnownToken]:
    with stored_records(loaded) as records:
        return await stored_tokens(loaded, records.thread).all(records.principal.principal_id)


async def _forget_tokens(loaded: LoadedSettings, chosen: Sequence[KnownToken]) -> None:
    tokens = [it.token for it in chosen]
    with stored_records(loaded) as records:
        await stored_tokens(loaded, records.thread).forget(records.principal.principal_id, tokens)
        await records.stored_approvals.drop_values(records.principal, tokens)
        event = AuditEvent.by_person(AuditEventKind.PRIVACY_FORGOTTEN, records.principal, reason=_names(chosen))
        records.audit.append(event)


async def _revealed(loaded: LoadedSettings, token: str) -> str:
    with stored_records(loaded) as records:
        return revealed_line(await TokenReveals(loaded, records.thread).reveal(token))


def _page(tokens: Sequence[KnownToken]) -> str:
    lines = [
        f"{it.token}  {it.kind}{f' of {it.server}' if it.server else ''}, last used {local_time(it.used_at)}"
        for it in tokens
    ]
    lines = first_lines(lines, _MAX_LISTED, "… and {:,} more")
    if len(tokens) > 1:
        lines.append(f"in all {_by_server(tokens)}")
    return "\n".join(lines) or "there are no privacy tokens"


def _by_server(tokens: Sequence[KnownToken]) -> str:
    """How much of `max_tokens` the tokens of each server use up."""
    counts = Counter(it.server or "servers that are not known" for it in tokens)
    return ", ".join(f"{count:,} of {server}" for server, count in counts.most_common(_MAX_NAMED))


def _names(tokens: Sequence[KnownToken]) -> str:
    return ", ".join(first_lines([it.token for it in tokens], _MAX_NAMED, "and {:,} more"))


def _as_json(token: KnownToken) -> dict[str, str]:
    times = {"made_at": local_time(token.made_at), "used_at": local_time(token.used_at)}
    return {"token": token.token, "kind": token.kind, "server": token.server, **times}
