"""The `login` command: signs the person in to a server with OAuth, in a browser."""

from __future__ import annotations

import argparse
import os
import threading

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from codemode_server.cli.arguments import config_file, seconds
from codemode_server.cli.signing_in import WAIT_S, NobodySignedIn, http_server, sign_in
from codemode_server.cli.terminal import announce, show
from codemode_server.config import LoadedSettings, load
from codemode_server.domain.errors import CodemodeError
from codemode_server.settings import ServerSettings
from codemode_server.upstreams.auth.oauth_settings import is_scope
from codemode_server.upstreams.auth.redirect_listener import RedirectListener
from codemode_server.web.browser import Browser

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
        "--wait", type=seconds, default=WAIT_S, metavar="SECONDS", help=f"for the browser; default {WAIT_S:.0f}"
    )


def run(parsed: argparse.Namespace) -> int:
    loaded = load(config_file(parsed))
    settings = http_server(loaded, parsed.server)
    show(anyio.run(_log_in, loaded, parsed.server, settings, parsed))
    return 0


async def _log_in(loaded: LoadedSettings, server: str, settings: ServerSettings, parsed: argparse.Namespace) -> str:
    page = _SignInPage(parsed.browser)
    try:
        return await sign_in(loaded, server, settings, page.show, scopes=parsed.scopes, wait_s=parsed.wait)
    except NobodySignedIn as error:
        raise CodemodeError(f"{error}; --wait SECONDS waits longer") from None
    finally:
        page.close()


class _SignInPage:
    """Shows the person the page to sign in."""

    def __init__(self, is_opened: bool) -> None:
        self._is_opened = is_opened
        self._browser = Browser("Sign in")

    async def show(self, address: str, listener: RedirectListener) -> None:
        """Open the browser, or print the address; the redirected address may be pasted."""
        if self._is_opened and await anyio.to_thread.run_sync(self._browser.open, address):
            announce(f"a browser opens; if it does not show the sign-in, open this address:\n\n{address}\n")
        else:
            announce(
                f"open this address in a browser:\n\n{address}\n\n"
                "If that browser is on another machine, it ends at a page that can't be reached: paste the address of "
                "that page here."
            )
        _read_pasted(listener)

    def close(self) -> None:
        """Remove what the browser was opened with."""
        self._browser.close()


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
