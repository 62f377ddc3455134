"""The `logout` command: revokes the sign-in to a server where the server can, and forgets it."""

from __future__ import annotations

import argparse

import anyio

from codemode_server.cli.arguments import config_file
from codemode_server.cli.signing_in import http_server
from codemode_server.cli.terminal import announce, show
from codemode_server.config import LoadedSettings, load
from codemode_server.config.live import LiveConfig
from codemode_server.first_listing import sign_ins
from codemode_server.text import escaped
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.tokens import AuthorizationUnavailable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="its name in upstream.yaml")


def run(parsed: argparse.Namespace) -> int:
    loaded = load(config_file(parsed))
    show(anyio.run(_log_out, loaded, parsed.server))
    return 0


async def _log_out(loaded: LoadedSettings, server: str) -> str:
    from codemode_server.upstreams.auth.token_requests import revoke

    stored = sign_ins(loaded, LiveConfig()).stored(server)
    known = loaded.settings.servers.get(server)
    async with stored.locked():
        found = await stored.read()
        if found is None:
            if not await stored.remove():
                http_server(loaded, server)
                return f"there is no sign-in to {server!r}"
            return f"forgot what was stored for {server!r}"
        await stored.remove()
    where = escaped(found.issuer)
    try:
        is_revoked = await revoke((known.oauth if known else None) or OAuthSettings(), found)
    except AuthorizationUnavailable as error:
        announce(f"the tokens were not revoked: {error}")
        is_revoked = False
    if is_revoked:
        return f"signed out of {server!r}: revoked at {where} and forgotten here"
    return f"forgot the sign-in to {server!r}; {where} has not revoked it, so its tokens stay valid until they expire"
