"""The commands `login` and `logout`: sign the person in to a server with OAuth, in a browser, and out again."""

from __future__ import annotations

import argparse
import os
import threading
from functools import partial

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from codemode_server.cli.arguments import seconds
from codemode_server.cli.terminal import announce, configuration, show
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import CodemodeError
from codemode_server.records.signing_in import http_server, sign_in
from codemode_server.startup.upstream_catalog import sign_ins
from codemode_server.support.browser import Browser
from codemode_server.support.text import escaped
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings, is_scope
from codemode_server.upstreams.auth.redirect_listener import RedirectListener
from codemode_server.upstreams.auth.tokens import AuthorizationUnavailable

_WAIT_S = 300.0
_MAX_PASTED_BYTES = 64 * 2**10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="its name in upstream.yaml")
    parser.add_argument(
        "--scope",
        dest="scopes",
        metavar="SCOPE",
        action="append",
        type=_scope,
        default=[],
        help="ask for this scope too; repeatable",
    )
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="only print the address to open")
    parser.add_argument(
        "--wait", type=seconds, default=_WAIT_S, metavar="SECONDS", help=f"for the browser; default {_WAIT_S:.0f}"
    )


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed)
    show(anyio.run(_log_in, loaded, parsed.server, parsed))
    return 0


async def _log_in(loaded: LoadedSettings, server: str, parsed: argparse.Namespace) -> str:
    browser = Browser("Sign in")
    show_page = partial(_show_page, browser if parsed.browser else None)
    try:
        with anyio.fail_after(parsed.wait):
            return await sign_in(loaded, server, show_page, scopes=parsed.scopes)
    except TimeoutError:
        nobody = f"nobody signed in within {parsed.wait:g} s; nothing was stored"
        raise CodemodeError(f"{nobody}; --wait SECONDS waits longer") from None
    finally:
        browser.close()


async def _show_page(browser: Browser | None, address: str, listener: RedirectListener) -> None:
    """Open the browser, or print the address; the redirected address may be pasted."""
    if browser is not None and await anyio.to_thread.run_sync(browser.open, address):
        announce(f"a browser opens; if it does not show the sign-in, open this address:\n\n{address}\n")
    else:
        announce(
            f"open this address in a browser:\n\n{address}\n\n"
            "If that browser is on another machine, it ends at a page that can't be reached: paste the address of "
            "that page here."
        )
    _read_pasted(listener)


def _read_pasted(listener: RedirectListener) -> None:
    """Read lines in a thread that does not hold up the end of the process."""
    token = anyio.lowlevel.current_token()

    def read() -> None:
        rest = b""
        while len(rest) < _MAX_PASTED_BYTES:
            try:
                # Not `sys.stdin`, whose lock a thread would hold at the end of the process.
                piece = os.read(0, 4096)
            except OSError:
                return
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in filter(None, map(bytes.strip, lines)):
                try:
                    wrong = anyio.from_thread.run_sync(listener.take, line.decode("utf-8", "replace"), token=token)
                except (RuntimeError, anyio.RunFinishedError):
                    return
                if not wrong:
                    return
                announce(f"{wrong}; paste the whole address to which the browser was sent")

    threading.Thread(target=read, daemon=True, name="pasted address").start()


def _scope(text: str) -> str:
    if is_scope(text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no scope; give --scope once for each")


def add_arguments_logout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="its name in upstream.yaml")


def run_logout(parsed: argparse.Namespace) -> int:
    show(anyio.run(_log_out, configuration(parsed), parsed.server))
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
