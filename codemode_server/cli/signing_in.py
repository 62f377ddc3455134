"""Signs the person in to a server with OAuth: for the command `login`."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig
from codemode_server.config.problems import no_server, printable
from codemode_server.domain.errors import CodemodeError
from codemode_server.first_listing import sign_ins
from codemode_server.settings import ServerSettings
from codemode_server.text import escaped
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.sign_ins import Show, signs_in

WAIT_S = 300.0


class NobodySignedIn(CodemodeError):
    """Raised when the time to sign in is over."""

    code = "nobody_signed_in"


def http_server(loaded: LoadedSettings, name: str) -> ServerSettings:
    """The settings of a server to sign in to."""
    settings = loaded.settings.servers.get(name)
    if settings is None:
        known = [name for name, server in loaded.settings.servers.items() if server.url is not None]
        if not known:
            shown = printable(name)
            remedy = f"`codemode-server add {shown} URL` adds it"
            raise CodemodeError(f"there is no server {shown!r}, nor another one with a url; {remedy}")
        raise no_server(name, known, str(loaded.path), others="servers with a url:")
    if settings.url is None:
        raise CodemodeError(f"server {name!r} is a program on this machine; only servers with a url have a sign-in")
    return settings


async def sign_in(
    loaded: LoadedSettings,
    server: str,
    settings: ServerSettings,
    show: Show,
    *,
    scopes: Sequence[str] = (),
    wait_s: float = WAIT_S,
) -> str:
    """Wait until the person has signed in at the address that `show` shows; gives what was done, in a line. Raises
    `NobodySignedIn` if the time is over; `CodemodeError`: the configuration has no sign-in for this server, or somebody
    refuses it."""
    _check_possible(server, settings)
    try:
        with anyio.fail_after(wait_s):
            found = await sign_ins(loaded, LiveConfig()).sign_in(server, settings, show, scopes=scopes)
    except TimeoutError:
        raise NobodySignedIn(f"nobody signed in within {wait_s:g} s; nothing was stored") from None
    except OSError as error:
        redirect = (settings.oauth or OAuthSettings()).redirect_uri
        raise CodemodeError(f"{redirect} can't be listened on: {error.strerror or error}") from None
    scope = f" with the scopes {escaped(found.scope)}" if found.scope else ""
    return f"signed in to {server!r} at {escaped(found.issuer)}{scope}; a running codemode-server notices in seconds"


def _check_possible(server: str, settings: ServerSettings) -> None:
    if _is_machine(settings):
        raise CodemodeError(f"server {server!r} has client credentials in upstream.yaml, so nobody signs in to it")
    if not signs_in(settings):
        raise CodemodeError(
            f"server {server!r} has an Authorization header or headers_command in upstream.yaml; remove that to sign in"
        )


def _is_machine(settings: ServerSettings) -> bool:
    return (settings.oauth or OAuthSettings()).grant == "client_credentials"
