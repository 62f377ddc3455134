"""The `tokens` command: makes, lists and revokes the tokens with which principals are served over HTTP."""

from __future__ import annotations

import argparse
import time
from contextlib import suppress

from codemode_server.cli.terminal import announce, configuration, local_time, show
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.principals import principal_id
from codemode_server.mcp_server.auth.access_tokens import AccessTokens, TokenRecord
from codemode_server.startup.stores import state_folder
from codemode_server.support.setting_types import seconds_of
from codemode_server.support.text import one_line

_MAX_S = 3_650 * 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a token and print it; it can't be printed again")
    create.add_argument("principal", metavar="PRINCIPAL", help="who is served with it")
    create.add_argument(
        "--expires", type=_seconds, default="90d", metavar="TIME", help="30m, 12h, 90d or never; default: 90d"
    )
    actions.add_parser("list", help="list the tokens: id, principal, and until when")
    revoke = actions.add_parser("revoke", help="end a token; the next request with it is refused")
    revoke.add_argument("token_id", metavar="ID", help="as `list` shows it")


def run(parsed: argparse.Namespace) -> int:
    settings = configuration(parsed, require_trust=False, resolve=False).settings
    tokens = AccessTokens(state_folder(settings))
    match parsed.action:
        case "create":
            try:
                principal = principal_id(parsed.principal)
            except ValueError as error:
                raise CodemodeError(f"PRINCIPAL {one_line(parsed.principal, 80)!r} {error}") from None
            token, record = tokens.create(principal, parsed.expires)
            announce(f"token {_row(record)}. It is not shown again; the header is `Authorization: Bearer TOKEN`")
            print(token)
            return 0
        case "revoke":
            if (found := tokens.revoke(parsed.token_id)) is None:
                unknown = one_line(parsed.token_id, 80)
                raise CodemodeError(f"there is no token {unknown!r}; see: codemode-server tokens list")
            show(f"revoked: {_row(found)}; programs that run already come to their end")
            return 0
    rows = [_row(it) for it in tokens.records()]
    show("\n".join(rows) or "there are no tokens; make one with: codemode-server tokens create PRINCIPAL")
    return 0


def _row(it: TokenRecord) -> str:
    made = local_time(it.created_at)[:10]
    if it.expires_at is None:
        until = "never expires"
    else:
        until = f"{'expired' if it.expires_at <= time.time() else 'expires'} {local_time(it.expires_at)}"
    return f"{it.token_id}  {it.principal}  made {made}, {until}"


def _seconds(text: str) -> float | None:
    """A time as `90d`; None for `never`."""
    if text == "never":
        return None
    with suppress(ValueError):
        if (seconds := seconds_of(text)) <= _MAX_S:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no time as 30m, 12h or 90d, nor `never`")
